# SPDX-License-Identifier: Apache-2.0
"""Run services under closed-loop clients, with arms that take turns on the same requests.

A client sends its next request as soon as it has its last answer. Arms are services that differ in their arguments alone;
they all run during a comparison and serve one block of the requests each, one arm at a time. An arm whose turn is over
stops learning until its next one, so that it takes no time from the others.

Times of an arm count only its own turns: its clock stops while another arm serves."""
import atexit
import contextlib
import dataclasses
import http.client
import json
import math
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
START_S, STOP_S, RELOAD_S, ANSWER_S = 60, 40, 10, 300
# The beginning of every request, as in a real service.
SYSTEM_PROMPT = "You are the assistant of Harbour College. Answer questions of staff and students, and answer briefly."
# The arguments that each arm adds to `slipstream serve`.
ARMS = {"learning": [], "untrained": [], "static": ["--no-learning"], "plain": ["--no-speculation", "--no-learning"],
        "lookup": ["--no-learning"], "shuffled": ["--no-learning"], "learned": ["--no-learning"]}
# The keys that an arm adds to [learning] of its configuration.
LEARNING_KEYS = {"untrained": 'governor = "steps_per_request:0"\n'}


def kind_of(arm):
    """An arm's name without its option: static of static:k=5."""
    return arm.partition(":")[0]


def arguments_of(arm):
    """The arguments that an arm adds to `slipstream serve`; `static:k=5` is static with --k 5. KeyError for an unknown arm."""
    name, _, option = arm.partition(":")
    return ARMS[name] + ([f"--{option}"] if option else [])


def with_learning_keys(text, keys):
    """`text`, TOML, with `keys` added to its section [learning], which may be missing."""
    head, _, others = text.partition("[learning]\n")
    return f"{head}\n[learning]\n{keys}{others}"


def config_of(arm, text):
    """`text`, the TOML of every arm, with the keys that this arm adds to it."""
    own = LEARNING_KEYS.get(kind_of(arm))
    return with_learning_keys(text, own) if own else text


class ServiceError(Exception):
    """A service that does not start, or a request it does not answer with 200, whose error code is `code`."""

    def __init__(self, message, code=None):
        super().__init__(message)
        self.code = code


def run(name, main):
    """Runs a benchmark's main(). A ServiceError ends the program with one line, Ctrl-C with status 130."""
    try:
        main()
    except ServiceError as error:
        sys.exit(f"{name}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def report(result, file, print_table):
    """What --json asks for: `-` prints the result as JSON, for bench/record.py; else the table is printed, and a file written."""
    text = json.dumps(result, indent=1) + "\n"
    if file == "-":
        print(text, end="")
        return
    if file:
        pathlib.Path(file).write_text(text)
    print_table(result)


def percentile(values, share):
    """0 without values."""
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


@contextlib.contextmanager
def interrupt_waits():
    """Ctrl-C within the block interrupts at its end. On the main thread only."""
    came = []
    before = signal.signal(signal.SIGINT, lambda *_: came.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            raise KeyboardInterrupt


@dataclasses.dataclass(frozen=True)
class Request:
    topic: str      # under which figures are kept
    label: str      # sent as metadata.topic
    prompt: str
    system: str = ""
    max_tokens: int = 96
    store: bool = True  # False keeps it out of learning
    tpot_ms: float = 0  # asked for; 0: none
    prediction: str = ""  # a text that the answer probably repeats
    temperature: float = 0  # above 0 drawn without a seed: no two answers are equal


@dataclasses.dataclass(frozen=True)
class Reply:
    topic: str
    text: str
    tokens: int
    steps: int        # target steps
    accepted: int
    rejections: int   # first rejections
    version: int      # of the draft; 0: the base draft or none
    started: float    # arm's seconds
    finished: float


class Service:
    """A `slipstream serve` on a port it chooses, with a fresh data directory; stopped with SIGTERM, at this program's end at the
    latest. Made on the main thread. Errors: ServiceError. `config_text` is TOML that does not set learning.enabled. `drafts`:
    a folder of learn_drafts(), whose drafts it serves from the start."""

    def __init__(self, program, name, folder, arguments, config_text="", drafts=None):
        self.data, self.log, self.config = folder / name, folder / f"{name}.log", folder / f"{name}.toml"
        self.config_text, self.learns = config_text, "--no-learning" not in arguments
        shutil.rmtree(self.data, ignore_errors=True)
        if drafts:
            shutil.copytree(drafts, self.data / "drafts")
        self._write_config(learning=True)
        command = [program, "serve", "-c", self.config, "--port", "0", "--data-dir", self.data] + arguments
        with open(self.log, "w") as log, interrupt_waits():  # else a process could start that nobody knows of
            self.process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, start_new_session=True)
            atexit.register(self.stop)
        try:
            self.address = self._await_ready()
        except BaseException:  # Ctrl-C while it starts, too
            self.stop()
            raise

    def _write_config(self, learning):
        self.config.write_text(with_learning_keys(self.config_text, f"enabled = {'true' if learning else 'false'}\n"))

    def _await_ready(self):
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(r"http://([\d.]+):(\d+)", self.log.read_text())
            if found:
                address = (found[1], int(found[2]))
                try:
                    if self._get(address, "/readyz")[0] == 200:
                        return address
                except OSError:
                    pass
            time.sleep(0.1)
        raise ServiceError(f"the service did not start; its log:\n{self.log.read_text()[-2000:]}")

    @staticmethod
    def _get(address, path):
        connection = http.client.HTTPConnection(*address, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    @property
    def url(self):
        return f"http://{self.address[0]}:{self.address[1]}"

    def metrics(self):
        return self._get(self.address, "/metrics")[1]

    def live_version(self, topic):
        """The number of the draft version that serves a topic; 0 is the base draft."""
        drafts = json.loads(self._get(self.address, "/v1/drafts")[1])["data"]
        return next(draft["live_version"] for draft in drafts if draft["topic"] == topic)

    def chat(self, request):
        """The reply as JSON."""
        messages = [{"role": "system", "content": request.system}] if request.system else []
        body = {"messages": messages + [{"role": "user", "content": request.prompt}], "max_tokens": request.max_tokens,
                "temperature": request.temperature, "metadata": {"topic": request.label}}
        if not request.store:
            body["store"] = False
        if request.prediction:
            body["prediction"] = {"type": "content", "content": request.prediction}
        if request.tpot_ms > 0:
            body["slo"] = {"tpot_ms": request.tpot_ms}
        connection = http.client.HTTPConnection(*self.address, timeout=ANSWER_S)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            reply = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise ServiceError(f"{response.status}: {reply}", reply.get("error", {}).get("code"))
        return reply

    def set_learning(self, on):
        """Lets the learner run, or stops it, by reloading the configuration. A service that never learns stays as it is."""
        if not self.learns:
            return
        seen = self.log.read_text().count("reloaded; changed: ")
        self._write_config(learning=on)
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + RELOAD_S
        while self.log.read_text().count("reloaded; changed: ") == seen:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise ServiceError(f"the service did not reload; its log:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.01)

    def rss_mib(self):
        found = re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0

    def idle_class_seconds(self):
        """CPU seconds of the threads that run at idle priority: the learner's."""
        total = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:  # a thread that just ended
                continue
            if int(fields[38]) == os.SCHED_IDLE:
                total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        atexit.unregister(self.stop)


class Arm:
    """A service, what it answered, and a clock that runs during its turns."""

    def __init__(self, name, service, n_requests):
        self.name, self.service = name, service
        self.replies = [None] * n_requests
        self.seconds = 0.0         # of its turns so far
        self.memory = []           # (arm's seconds, MiB) after every turn
        self.learner_seconds = 0.0  # CPU seconds of the learner
        service.set_learning(False)

    def serve(self, requests, first, last, clients, on_reply=lambda arm, reply: None):
        """Answers requests [first, last) with `clients` that never pause. One client's failure ends the turn and is raised."""
        self.service.set_learning(True)
        began, lock, waiting, failures = time.monotonic() - self.seconds, threading.Lock(), iter(range(first, last)), []

        def client():
            while not failures:
                with lock:
                    index = next(waiting, None)
                if index is None:
                    return
                try:
                    self._answer(requests[index], index, began)
                    with lock:
                        on_reply(self, self.replies[index])
                except Exception as error:
                    failures.append(error)

        threads = [threading.Thread(target=client, daemon=True) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.seconds = time.monotonic() - began
        self.service.set_learning(False)
        if failures:
            raise failures[0]
        self.memory.append((self.seconds, self.service.rss_mib()))
        self.learner_seconds = self.service.idle_class_seconds()

    def _answer(self, request, index, began):
        started = time.monotonic() - began
        reply = self.service.chat(request)
        counts = reply["metrics"]["speculative_decoding"]
        self.replies[index] = Reply(request.topic, reply["choices"][0]["message"]["content"], reply["usage"]["completion_tokens"],
                                    counts["num_spec_steps"], counts["num_accepted_draft_tokens"], counts["num_first_rejections"],
                                    counts.get("draft_version") or 0, started, time.monotonic() - began)


def count_published(drafts):
    """The versions in a folder of drafts, the base draft's left out."""
    return sum(version.parent.name != "base" for version in drafts.glob("*/v*"))


def learn_drafts(program, folder, model, requests, clients, config_text=""):
    """(a folder for Service(drafts=...), its versions): the drafts that a service publishes while it answers the requests.
    ServiceError without one: whoever serves these drafts would serve the base draft."""
    service = Service(program, "learn-first", folder, model, config_text)
    try:
        arm = Arm("learning", service, len(requests))
        arm.serve(requests, 0, len(requests), clients)
    finally:
        service.stop()
    drafts = service.data / "drafts"
    published = count_published(drafts)
    if not published:
        raise ServiceError("no draft was published: more --learn-first requests may do")
    print(f"  learned from {len(requests)} requests in {arm.seconds:.0f} s, published {published} versions", file=sys.stderr, flush=True)
    return drafts, published


def turns(names, n_requests, blocks):
    """Who serves which requests when: [(name, first, last)]. The order of the arms is turned round from block to block, so that
    over two blocks every arm has the same middle in time, and a machine that drifts evenly favours none."""
    borders = [n_requests * i // blocks for i in range(blocks + 1)]
    order = []
    for block in range(blocks):
        row = names if block % 2 else names[::-1]
        order += [(name, borders[block], borders[block + 1]) for name in row]
    return order


def step_ms(replies):
    """Milliseconds of an answer per target step, its prompt included; 0 without a step."""
    steps = sum(r.steps for r in replies)
    return 1e3 * sum(r.finished - r.started for r in replies if r.steps) / steps if steps else 0.0


def tokens_per_s(replies):
    """Tokens of these answers over the time from the first one's start to the last one's end."""
    if not replies:
        return 0.0
    return sum(r.tokens for r in replies) / max(1e-9, max(r.finished for r in replies) - min(r.started for r in replies))


def alpha(replies):
    """accepted / (accepted + first rejections); 0 where nothing was proposed."""
    accepted, rejections = sum(r.accepted for r in replies), sum(r.rejections for r in replies)
    return accepted / max(1, accepted + rejections)


def accepted_length(replies):
    """Tokens per target step."""
    return sum(r.tokens for r in replies) / max(1, sum(r.steps for r in replies))


def of_topic(replies, topic):
    return [r for r in replies if r.topic == topic]


def last_third(replies):
    return replies[len(replies) - len(replies) // 3:]


def paired_gain(ours, theirs):
    """(gain, standard error): α of `ours` less that of `theirs`, answers to the same requests; jackknife over requests."""
    rows = [(a.accepted, a.rejections, b.accepted, b.rejections) for a, b in zip(ours, theirs, strict=True)]
    sums = [sum(column) for column in zip(*rows)] or [0, 0, 0, 0]

    def gain(s):
        return s[0] / max(1e-9, s[0] + s[1]) - s[2] / max(1e-9, s[2] + s[3])

    n = len(rows)
    if n < 2:
        return gain(sums), math.inf
    without = [gain([total - value for total, value in zip(sums, row)]) for row in rows]
    mean = sum(without) / n
    return gain(sums), math.sqrt((n - 1) / n * sum((g - mean) ** 2 for g in without))


@dataclasses.dataclass(frozen=True)
class Score:
    """What a draft would have had accepted of one answer."""
    accepted: float
    rejections: float


def same_text(database, topic):
    """(scores of the live draft, scores of the base draft) on the same answers of a topic, oldest first, from the ledger."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as ledger:
        rows = ledger.execute("SELECT live_accepted, live_first_rejections, base_accepted, base_first_rejections FROM same_text "
                              "WHERE topic = ? ORDER BY id", (topic,)).fetchall()
    return [Score(*row[:2]) for row in rows], [Score(*row[2:]) for row in rows]


def different_answers(arms):
    """Indices of the requests that not all arms answered with the same text and as many tokens."""
    answers = zip(*[[(r.text, r.tokens) for r in arm.replies] for arm in arms])
    return [i for i, row in enumerate(answers) if len(set(row)) > 1]


def decisions(database, after_us=0):
    """The ledger's canary decisions after a time, but for the undecided ones; none while there is no ledger."""
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as ledger:
            return ledger.execute("SELECT at_us, topic, kind, live_version, candidate_version, reason FROM canary_decisions "
                                  "WHERE at_us > ? AND kind != 'undecided' ORDER BY at_us", (after_us,)).fetchall()
    except sqlite3.Error:
        return []
