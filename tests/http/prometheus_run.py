#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus against the built service: promtool checks what /metrics says, checks and tests the example
alerts, and a Prometheus of its own scrapes the service and evaluates them. Development only: it needs `prometheus` and
`promtool` (Debian's package prometheus), which neither the build nor CI installs.

    python3 tests/http/prometheus_run.py build/slipstream checkpoints/demo/target checkpoints/demo/draft
"""
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from service import Service

HERE = pathlib.Path(__file__).resolve().parent
RULES = HERE.parent.parent / "configs/prometheus/alerts.yml"
FAILURES = []


def check(name, condition, detail=""):
    print(f"{'ok  ' if condition else 'FAIL'} {name}{'' if condition else f': {detail}'}", flush=True)
    if not condition:
        FAILURES.append(name)


def run(command, stdin=None):
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def check_metrics(text):
    # The names follow vLLM's, which begin with the program's name and a colon; promtool would keep colons for rules.
    status, said = run(["promtool", "check", "metrics"], text)
    others = [line for line in said.splitlines() if line.strip() and not re.search("should not contain ':'", line)]
    check("promtool check metrics", status in (0, 3) and not others, others)
    check("there are metrics", text.count("# TYPE slipstream:") > 20, text[:200])


def check_rules(folder):
    check("promtool check rules", *run_ok(["promtool", "check", "rules", str(RULES)]))
    cases = folder / "cases.yml"
    cases.write_text((HERE / "prometheus_alerts.yml").read_text().replace("RULES", str(RULES)))
    check("promtool test rules", *run_ok(["promtool", "test", "rules", str(cases)]))


def run_ok(command):
    status, said = run(command)
    return status == 0, said


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=5) as reply:
        return json.load(reply)["data"]


def scrape(service, folder):
    config = folder / "prometheus.yml"
    config.write_text(f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{RULES}]\nscrape_configs:\n"
                      f"  - job_name: slipstream\n    static_configs: [{{targets: ['{service.url.split('//')[1]}']}}]\n")
    address = f"127.0.0.1:{free_port()}"
    with open(folder / "prometheus.log", "w") as log:
        server = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb",
                                   f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        rules, ready = [], []
        for _ in range(60):
            time.sleep(0.5)
            try:
                rules = [rule for group in get(f"http://{address}/api/v1/rules")["groups"] for rule in group["rules"]]
                ready = get(f"http://{address}/api/v1/query?query=slipstream:ready")["result"]
            except OSError:
                continue
            if ready and rules and all(rule["health"] == "ok" for rule in rules):
                break
        targets = get(f"http://{address}/api/v1/targets")["activeTargets"]
        check("the scrape is good", [target["health"] for target in targets] == ["up"], targets)
        check("the service is ready there too", [one["value"][1] for one in ready] == ["1"], ready)
        check("five alerts are evaluated, none fires", [(rule["health"], rule["state"]) for rule in rules] == [("ok", "inactive")] * 5, rules)
    finally:
        server.terminate()
        server.wait(30)


def main():
    for tool in ("promtool", "prometheus"):
        if shutil.which(tool) is None:
            sys.exit(f"no {tool} on the PATH: apt-get install prometheus")
    program, target, draft = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        service = Service(program, ["--target", target, "--draft", draft, "--no-learning"], folder)
        for topic in ("sql", "math"):
            body = {"prompt": "x", "max_tokens": 16, "metadata": {"topic": topic}}
            service.ask("/v1/completions", json.dumps(body).encode())
        check_metrics(service.ask("/metrics"))
        check_rules(folder)
        scrape(service, folder)
        check("the service ended well", service.stop() == 0)
    sys.exit(1 if FAILURES else 0)


if __name__ == "__main__":
    main()
