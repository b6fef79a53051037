#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare a service's memory early in and at the end of long mixed traffic.

    python3 bench/soak.py --target T160 --prompts-root DIR --minutes 60 --clients 4 --kinds valid --reference-s 120
    python3 bench/soak.py --target checkpoints/demo/target --prompts-root DIR --minutes 60 --clients 16 --reference-s 300

DIR has sql.jsonl, math.jsonl, code.jsonl and lang.jsonl with `prompt` and `topic` in each row. Every client takes the kinds
in turn: `valid` requests of every topic, `invalid` ones, `cancelled` ones whose client leaves in the middle of the stream, and
`stalled` ones whose client stops reading or stops writing for some seconds. What request i of a client is depends on --seed
alone. Exit status 1: a valid or a cancelled request was not answered with 200 (or a 503 with Retry-After), an invalid one not with 4xx, the
service ended, or memory grew beyond --most times the reference."""
import argparse
import collections
import csv
import http.client
import json
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

import closed_loop
from service import read_prompts

KINDS = ["valid", "invalid", "cancelled", "stalled"]
STALL_S = 5
SAMPLE_S = 10
SLACK_SAMPLES = 6  # both ends of the ratio are medians over so many samples

# Invalid bodies; each must be refused with a 4xx.
BROKEN = [b"", b"{", b"[]", b"null", b'{"messages": 1}', b'{"messages": []}', b'{"messages": [{"role": "user"}]}',
          b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": "many"}',
          b'{"messages": [{"role": "user", "content": "x"}], "temperature": -1}',
          b'{"messages": [{"role": "user", "content": "x"}], "n": 100000}',
          b'{"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema"}}',
          b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}', b'{"a":' * 5000]


def outcome_of(response):
    """Of a request that should be answered."""
    fine = response.status == 200 or (response.status == 503 and response.getheader("Retry-After"))
    return str(response.status) if fine else f"FAILED {response.status}"


class Client(threading.Thread):
    """Sends requests one after the other until told to stop. Counts are shared, under a lock."""

    def __init__(self, service, prompts, options, number, shared):
        super().__init__(daemon=True)
        self.service, self.prompts, self.options, self.number, self.shared = service, prompts, options, number, shared

    def run(self):
        index = 0
        while not self.shared.stop.is_set():
            kind = self.options.kinds[(index + self.number) % len(self.options.kinds)]
            rng = random.Random(f"{self.options.seed}/{self.number}/{index}")
            try:
                outcome = getattr(self, kind)(rng)
            except Exception as error:  # else the thread would end, and nobody would notice
                outcome = f"FAILED {type(error).__name__}"
            self.shared.count(kind, outcome)
            index += 1
            self.shared.stop.wait(self.options.pause)

    def _body(self, rng, stream=False):
        label, prompt = rng.choice(self.prompts[rng.choice(sorted(self.prompts))])
        system = [{"role": "system", "content": closed_loop.SYSTEM_PROMPT}] if rng.random() < 0.5 else []
        return {"messages": system + [{"role": "user", "content": prompt}], "stream": stream,
                "max_tokens": rng.choice([1, 16, 48, 96]), "temperature": rng.choice([0, 0, 0, 0.8]), "seed": rng.randrange(1000),
                "metadata": {"topic": label}}

    def _post(self, body):
        connection = http.client.HTTPConnection(*self.service.address, timeout=closed_loop.ANSWER_S)
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def valid(self, rng):
        connection, response = self._post(json.dumps(self._body(rng)))
        try:
            response.read()
            return outcome_of(response)
        finally:
            connection.close()

    def invalid(self, rng):
        connection, response = self._post(rng.choice(BROKEN))
        try:
            response.read()
            return str(response.status) if 400 <= response.status < 500 else f"FAILED {response.status}"
        finally:
            connection.close()

    def cancelled(self, rng):
        connection, response = self._post(json.dumps(self._body(rng, stream=True)))
        try:
            response.read(rng.choice([1, 200, 1000]))
            return "left" if response.status == 200 else outcome_of(response)
        finally:
            connection.close()

    def stalled(self, rng):
        body = json.dumps(self._body(rng, stream=True)).encode()
        sent = rng.choice([len(body), len(body) // 2])
        with socket.create_connection(self.service.address, timeout=closed_loop.ANSWER_S) as connection:
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                               b"Content-Length: %d\r\n\r\n" % len(body) + body[:sent])
            self.shared.stop.wait(STALL_S)
        return "read nothing" if sent == len(body) else "sent half"


class Shared:
    def __init__(self):
        self.stop, self._lock, self.counts = threading.Event(), threading.Lock(), collections.Counter()

    def count(self, kind, outcome):
        with self._lock:
            self.counts[(kind, outcome)] += 1

    def failures(self):
        return sum(n for (_, outcome), n in self.counts.items() if outcome.startswith("FAILED"))


def memory(service):
    """{part: MiB} of /metrics; their sum is `resident`."""
    text = service.metrics()
    parts = {name: float(value) / 2**20 for name, value in re.findall(r'memory_bytes\{[^}]*part="([^"]+)"[^}]*\} ([\d.e+]+)', text)}
    resident = re.search(r"^\S*resident_memory_bytes(?:\{[^}]*\})? ([\d.e+]+)", text, re.M)
    return parts | {"resident": float(resident[1]) / 2**20}


def sample(service, began):
    """{"s": seconds since `began`, part: MiB}; None when the service has ended. Errors: ServiceError."""
    try:
        return {"s": time.monotonic() - began} | memory(service)
    except (OSError, http.client.HTTPException) as error:
        try:
            service.process.wait(closed_loop.RELOAD_S)
        except subprocess.TimeoutExpired:
            raise closed_loop.ServiceError(f"the service runs, but does not answer /metrics: {error!r}") from error
        return None


def median(values):
    return sorted(values)[len(values) // 2]


def run(options, folder):
    service = closed_loop.Service(options.slipstream, "soak", folder,
                                  ["--target", options.target, "--draft", options.draft] + options.arguments)
    shared, samples, began = Shared(), [], time.monotonic()
    try:
        clients = [Client(service, read_prompts(options.prompts_root), options, i, shared) for i in range(options.clients)]
        for client in clients:
            client.start()
        while time.monotonic() - began < 60 * options.minutes:
            time.sleep(SAMPLE_S)
            now = sample(service, began)
            if now is None:
                break
            samples.append(now)
            print(f"{samples[-1]['s']:6.0f} s  {samples[-1]['resident']:7.1f} MiB  {sum(shared.counts.values())} requests, "
                  f"{shared.failures()} failed", file=sys.stderr, flush=True)
        shared.stop.set()
        for client in clients:
            client.join(2 * STALL_S)
        ended = service.process.poll()
    finally:
        service.stop()
    if not samples:
        log = service.log.read_text()[-2000:]
        raise closed_loop.ServiceError(f"the service ended at once: {ended}; its log:\n{log}")
    first = next((i for i, sample in enumerate(samples) if sample["s"] >= options.reference_s), 0)
    reference = median([s["resident"] for s in samples[first:first + SLACK_SAMPLES]])
    last = median([s["resident"] for s in samples[-SLACK_SAMPLES:]])
    return {"reference_mib": reference, "last_mib": last, "ratio": last / reference, "most_mib": max(s["resident"] for s in samples),
            "ended": ended, "failures": shared.failures(), "samples": samples,
            "counts": [{"kind": kind, "outcome": outcome, "n": n} for (kind, outcome), n in sorted(shared.counts.items())]}


def fault_of(result, most):
    """Why the run counts as failed; None: it does not. Pure."""
    if result["ended"] is not None:
        return f"the service ended: {result['ended']}"
    if result["failures"]:
        return f"{result['failures']} requests were not answered as they should be"
    if result["ratio"] > most:
        return f"memory grew to {result['ratio']:.2f} times the reference, beyond {most}"
    return None


def print_table(result, options):
    print(f"RSS {result['reference_mib']:.0f} MiB after {options.reference_s:.0f} s, {result['last_mib']:.0f} MiB at the end "
          f"({result['ratio']:.2f} x), {result['most_mib']:.0f} at most")
    first, last = result["samples"][min(len(result["samples"]) - 1, int(options.reference_s / SAMPLE_S))], result["samples"][-1]
    for part in [name for name in last if name not in ("s", "resident")]:
        print(f"  {part:<24} {first.get(part, 0):8.1f} -> {last[part]:8.1f} MiB")
    for row in result["counts"]:
        print(f"  {row['kind']:<10} {row['outcome']:<28} {row['n']}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft", default=str(closed_loop.ROOT / "checkpoints/demo/draft"))
    parser.add_argument("--prompts-root", required=True, type=pathlib.Path)
    parser.add_argument("--slipstream", default=str(closed_loop.ROOT / "build/slipstream"))
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS, help="of " + ", ".join(KINDS))
    parser.add_argument("--pause", type=float, default=0, help="seconds between two requests of a client")
    parser.add_argument("--reference-s", type=float, default=300, help="when the memory is taken that the end is compared with")
    parser.add_argument("--most", type=float, default=1.15, help="times the reference")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", help="one row for every sample")
    parser.add_argument("--json", help="write everything into this file; -: print it instead of the table, for bench/record.py")
    parser.add_argument("arguments", nargs="*", help="after --: more arguments of `slipstream serve`")
    options = parser.parse_args()
    if set(options.kinds) - set(KINDS):
        parser.error("--kinds takes " + ", ".join(KINDS))
    if options.reference_s + 2 * SLACK_SAMPLES * SAMPLE_S > 60 * options.minutes:
        parser.error(f"--reference-s {options.reference_s:g} is too late to compare it with the end: it must come "
                     f"{2 * SLACK_SAMPLES * SAMPLE_S} s before")
    return options


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        result = run(options, pathlib.Path(folder))
    if options.csv:
        names = list(result["samples"][-1])
        with open(options.csv, "w", newline="") as out:
            rows = csv.DictWriter(out, names, restval=0, extrasaction="ignore")
            rows.writeheader()
            rows.writerows(result["samples"])
    if options.json == "-":
        print(json.dumps(result, indent=1))
    else:
        print_table(result, options)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(result, indent=1))
    fault = fault_of(result, options.most)
    if fault:
        sys.exit(f"soak: {fault}")


if __name__ == "__main__":
    closed_loop.run("soak", main)
