#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo: a service on a larger copy of the embedded target answers a stream of prompts that moves between topics, and its
drafts learn as it goes; then the same prompts without learning, and the same answers by plain decoding.

Exit status 0 unless an answer differs from plain decoding or a draft ends below the base draft on the same text."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import demo_prompts

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
WORK = BUILD / "demo"
SHAPE = {"hidden": 1536, "layers": 6, "ffn": 4096, "heads": 24, "kv-heads": 8}
STEPS_PER_REQUEST = 4
K = 3
MAX_TOKENS = 96
CLIENTS = 2
ENGINE_THREADS = max(1, len(os.sched_getaffinity(0)) - 1)  # the same with and without learning, which has the core that is left
BUDGET_S = 310      # of answering, both arms and the check; the rest of six minutes is start-up and the last report
CHECKED = 20
TTY = sys.stdout.isatty()
COLOR = TTY and "NO_COLOR" not in os.environ
SPARKS = "▁▂▃▄▅▆▇█"


def say(text=""):
    print(text, flush=True)


def bold(text):
    return f"\033[1m{text}\033[0m" if COLOR else text


def run_json(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"demo: {command[0]} failed ({done.returncode}):\n{done.stderr[-2000:]}")
    return done.stdout


class Service:
    """A `slipstream serve` on a port it chooses; stopped with SIGTERM."""

    def __init__(self, name, target, arguments):
        self.data = WORK / name
        shutil.rmtree(self.data, ignore_errors=True)
        self.log = WORK / f"{name}.log"
        command = [BUILD / "slipstream", "serve", "-c", ROOT / "configs/demo.toml", "--target", target, "--draft",
                   ROOT / "checkpoints/demo/draft", "--k", str(K), "--port", "0", "--data-dir", self.data,
                   "--threads", str(ENGINE_THREADS)] + arguments
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, start_new_session=True)
        try:
            self.address = self._await_ready()
        except BaseException:  # Ctrl-C while it starts, too
            self.stop()
            raise

    def _await_ready(self):
        for _ in range(600):
            found = re.search(r"http://([\d.]+):(\d+)", self.log.read_text())
            if found:
                address = (found[1], int(found[2]))
                try:
                    connection = http.client.HTTPConnection(*address, timeout=5)
                    connection.request("GET", "/readyz")
                    if connection.getresponse().status == 200:
                        return address
                except OSError:
                    pass
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        sys.exit(f"demo: the service did not start; its log:\n{self.log.read_text()[-2000:]}")

    @property
    def url(self):
        return f"http://{self.address[0]}:{self.address[1]}"

    def chat(self, label, prompt):
        connection = http.client.HTTPConnection(*self.address, timeout=300)
        body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": MAX_TOKENS, "temperature": 0,
                "metadata": {"topic": label}}
        started = time.monotonic()
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        reply = json.loads(response.read())
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {reply}")
        reply["seconds"] = time.monotonic() - started
        return reply

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()


class Figures:
    """What one topic's requests came to so far."""

    def __init__(self):
        self.requests = self.tokens = self.steps = self.accepted = self.rejections = self.version = 0
        self.seconds = 0.0
        self.history = []

    def add(self, reply):
        speculation = reply["metrics"]["speculative_decoding"]
        self.requests += 1
        self.tokens += reply["usage"]["completion_tokens"]
        self.steps += speculation["num_spec_steps"]
        self.accepted += speculation["num_accepted_draft_tokens"]
        self.rejections += speculation["num_first_rejections"]
        self.version = max(self.version, speculation.get("draft_version") or 0)
        self.seconds += reply["seconds"]
        self.history.append((speculation["num_accepted_draft_tokens"], speculation["num_first_rejections"]))

    def alpha(self, last=None):
        rows = self.history[-last:] if last else self.history
        accepted, rejections = sum(a for a, _ in rows), sum(r for _, r in rows)
        return accepted / max(1, accepted + rejections)

    def sparkline(self, width=8):
        size = max(1, len(self.history) // width)
        groups = [self.history[i:i + size] for i in range(0, len(self.history), size)][-width:]
        alphas = [sum(a for a, _ in g) / max(1, sum(a + r for a, r in g)) for g in groups]
        low, high = min(alphas), max(max(alphas), min(alphas) + 0.05)
        return "".join(SPARKS[min(7, int((alpha - low) / (high - low) * 7.99))] for alpha in alphas)


def same_text(database):
    """Per topic: the base draft's α, and the live draft's paired gain over it with its 95 % interval (jackknife over requests)."""
    result = {}
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as ledger:
            rows = ledger.execute("SELECT topic, live_accepted, live_first_rejections, base_accepted, base_first_rejections "
                                  "FROM same_text ORDER BY at_us").fetchall()
    except sqlite3.Error:
        return result
    for topic in {row[0] for row in rows}:
        scores = [row[1:] for row in rows if row[0] == topic]
        sums = [sum(column) for column in zip(*scores)]
        ratio = lambda s: (s[0] / max(1e-9, s[0] + s[1]), s[2] / max(1e-9, s[2] + s[3]))
        live, base = ratio(sums)
        n = len(scores)
        low = high = live - base
        if n > 1:
            leave_out = [ratio([total - value for total, value in zip(sums, row)]) for row in scores]
            gains = [a - b for a, b in leave_out]
            mean = sum(gains) / n
            error = ((n - 1) / n * sum((gain - mean) ** 2 for gain in gains)) ** 0.5
            low, high = live - base - 1.96 * error, live - base + 1.96 * error
        result[topic] = {"live": live, "base": base, "gain": live - base, "low": low, "high": high, "requests": n}
    return result


def decisions(database, after):
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as ledger:
            return ledger.execute("SELECT at_us, topic, kind, live_version, candidate_version, reason FROM canary_decisions "
                                  "WHERE at_us > ? AND kind != 'undecided' ORDER BY at_us", (after,)).fetchall()
    except sqlite3.Error:
        return []


class LiveTable:
    """One line a topic, redrawn on a terminal, printed now and then elsewhere; decisions scroll above it."""

    def __init__(self, totals):
        self.totals, self.drawn, self.last_event, self.printed = totals, 0, 0, 0.0

    def lines(self, figures, scores):
        yield bold(f"{'topic':<8}{'req':>7}  {'α now':>6} {'α base*':>8}  {'gain (95 %)':<19}{'length':>7} {'tok/s':>6}  {'draft':<6} learning")
        for topic, total in self.totals.items():
            one, score = figures.get(topic), scores.get(topic)
            if one is None or one.requests == 0:
                yield f"{topic:<8}{0:>4}/{total}"
                continue
            gain = f"{score['gain']:+.2f} [{score['low']:+.2f}, {score['high']:+.2f}]" if score else ""
            base = f"{score['base']:.2f}" if score else ""
            yield (f"{topic:<8}{one.requests:>4}/{total:<2}  {one.alpha(12):>6.2f} {base:>8}  {gain:<19}"
                   f"{one.tokens / max(1, one.steps):>7.2f} {one.tokens / max(1e-9, one.seconds):>6.0f}  v{one.version:<5} {one.sparkline()}")

    def draw(self, figures, database, final=False):
        events = decisions(database, self.last_event)
        if not (TTY or final or events) and time.monotonic() - self.printed < 15:
            return
        self.printed = time.monotonic()
        if TTY and self.drawn:
            sys.stdout.write(f"\033[{self.drawn}F\033[J")
        for at, topic, kind, live, candidate, reason in events:
            self.last_event = at
            clock = time.strftime("%H:%M:%S", time.localtime(at / 1e6))
            what = {"publish": f"v{live}→v{candidate} published", "refuse": "candidate refused",
                    "rollback": f"v{live} rolled back"}.get(kind, kind)
            say(f"{clock} {topic} {what}: {reason}")
        lines = list(self.lines(figures, same_text(database)))
        say("\n".join(lines))
        self.drawn = len(lines)


def stream(service, prompts, totals, live):
    figures, answers, lock = {topic: Figures() for topic in totals}, [None] * len(prompts), threading.Lock()
    table = LiveTable(totals)

    def one(index):
        topic, label, prompt = prompts[index]
        reply = service.chat(label, prompt)
        with lock:
            figures[topic].add(reply)
            answers[index] = reply["choices"][0]["message"]["content"]
            if live:
                table.draw(figures, service.data / "ledger.db")

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(one, range(len(prompts))))
    if live:
        table.draw(figures, service.data / "ledger.db", final=True)
    return figures, answers


def step_ms(target):
    """Milliseconds of one plain decoding step, from one answer of the target alone."""
    row = json.loads(run_json([BUILD / "slipstream", "generate", "--target", target, "--prompt", "Count the books.", "--chat",
                               "--temperature", "0", "--max-tokens", "48", "--threads", "1", "--json"]))
    return 1000 / row["tokens_per_second"]


def requests_per_topic(ms):
    """As many as fit the time on this machine, from 20 to 60: an answer takes some 70 tokens, about half a plain step each with drafts and company."""
    plain = 70 * ms / 1000
    per_request = plain * 0.4 * 2   # both arms; measured 0.31 to 0.41 of plain decoding with two clients
    return max(20, min(60, int((BUDGET_S - CHECKED * plain) / (4 * per_request)))) // 2 * 2


def check_lossless(target, prompts, answers):
    chosen = list(range(0, len(prompts), max(1, len(prompts) // CHECKED)))[:CHECKED]
    while len(chosen) < min(CHECKED, len(prompts)):
        chosen.append(next(i for i in range(len(prompts)) if i not in chosen))
    file = WORK / "checked.jsonl"
    file.write_text("".join(json.dumps({"id": str(i), "prompt": prompts[i][2]}) + "\n" for i in chosen))
    plain = run_json([BUILD / "slipstream", "generate", "--target", target, "--prompts", file, "--chat", "--temperature", "0",
                      "--max-tokens", str(MAX_TOKENS), "--json", "--concurrency", "4"])
    rows = [json.loads(line) for line in plain.splitlines()]
    different = [row["id"] for row in rows if row["text"] != answers[int(row["id"])]]
    return {"checked": len(rows), "different": len(different)}


def comparison(learned, frozen, scores):
    yield bold(f"{'topic':<8}{'req':>5}   {'α':>4} → {'last':<5} {'without':>7}   {'length':>6} {'without':>7}   {'tok/s':>5} {'without':>7}   gain over base on the same text")
    for topic, one in learned.items():
        other, score = frozen[topic], scores.get(topic)
        gain = f"{score['gain']:+.3f} [{score['low']:+.3f}, {score['high']:+.3f}]" if score else "–"
        yield (f"{topic:<8}{one.requests:>5}   {one.alpha():>4.2f} → {one.alpha(12):<5.2f} {other.alpha():>7.2f}   "
               f"{one.tokens / max(1, one.steps):>6.2f} {other.tokens / max(1, other.steps):>7.2f}   "
               f"{one.tokens / one.seconds:>5.0f} {other.tokens / other.seconds:>7.0f}   {gain}")


def summary(learned, scores, lossless):
    topics = [{"topic": topic, "requests": one.requests, "alpha": one.alpha(), "base_alpha_same_text": scores.get(topic, {}).get("base"),
               "last_alpha": one.alpha(12), "accepted_length": one.tokens / max(1, one.steps),
               "tokens_per_s": one.tokens / max(1e-9, one.seconds), "draft_version": one.version} for topic, one in learned.items()]
    return {"requests": sum(one.requests for one in learned.values()), "topics": topics, "lossless": lossless}


def write_reports(database):
    shutil.copy(database, WORK / "ledger.db")
    text = ""
    for kind in ("topics", "drift", "drafts"):
        text += run_json([BUILD / "slipstream", "report", kind, "--db", WORK / "ledger.db"]) + "\n"
    (WORK / "report.txt").write_text(text)
    (WORK / "report.svg").write_text(run_json([BUILD / "slipstream", "report", "drift", "--db", WORK / "ledger.db", "--format", "svg"]))
    return text


def topics_below_base(scores):
    """The topics whose whole interval lies below zero: a wide one says nothing against the draft."""
    return [topic for topic, score in scores.items() if score["high"] < 0]


def demo():
    WORK.mkdir(parents=True, exist_ok=True)
    target = WORK / "target-160m"
    if not (target / "model.safetensors").exists():
        shutil.rmtree(target, ignore_errors=True)
        say("Inflating the embedded target to 160M parameters: the same function at a larger model's cost …")
        run_json([BUILD / "bench/inflate", "--from", ROOT / "checkpoints/demo/target", "--to", target]
                 + [part for key, value in SHAPE.items() for part in (f"--{key}", value)])
    ms = step_ms(target)
    per_topic = requests_per_topic(ms)
    prompts = demo_prompts.stream(per_topic)
    totals = {topic: sum(1 for t, _, _ in prompts if t == topic) for topic in dict.fromkeys(t for t, _, _ in prompts)}
    running = []
    try:
        service = Service("learning", target, [])
        running.append(service)
        say(bold(f"Slipstream demo · target 160M (12.6M inflated: a small model at a large one's cost) · {service.url}"))
        say(f"plain decoding {ms:.1f} ms a token here · {per_topic} requests a topic · k = {K} · governor StepsPerRequest({STEPS_PER_REQUEST})")
        learned, answers = stream(service, prompts, totals, live=True)
        service.stop()
        scores = same_text(service.data / "ledger.db")
        say("* the base draft scored on the same text\n\nThe same prompts without learning …")
        plain = Service("frozen", target, ["--no-learning"])
        running.append(plain)
        frozen, _ = stream(plain, prompts, totals, live=False)
        plain.stop()
        say("\n".join(comparison(learned, frozen, scores)))
        lossless = check_lossless(target, prompts, answers)
        say(f"\nanswers equal to plain decoding: {lossless['checked'] - lossless['different']}/{lossless['checked']}\n")
        say(write_reports(service.data / "ledger.db"))
    finally:
        for one in running:
            one.stop()
    (WORK / "summary.json").write_text(json.dumps(summary(learned, scores, lossless), indent=1) + "\n")
    say(f"The model is a small one at a larger one's cost: acceptance and speed-up are real, the answers are a toy's.\n"
        f"Files: build/demo/{{summary.json, ledger.db, report.txt, report.svg}}. Try: sqlite3 build/demo/ledger.db 'select * from topics'")
    worse = topics_below_base(scores)
    if worse:
        say(f"demo: the draft for {', '.join(worse)} ended below the base draft on the same text")
    return 1 if lossless["different"] or worse else 0


def main():
    try:
        sys.exit(demo())
    except KeyboardInterrupt:
        say("\ndemo: stopped")
        sys.exit(130)


if __name__ == "__main__":
    main()
