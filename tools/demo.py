#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo: two clients that never pause ask a service on a larger copy of the embedded target; its drafts learn from the answers.
The same requests go to the same service without learning, and without drafts. All run with the defaults on all cores.

Exit status 0 only if all answers are equal, the drafts of the new traffic (sql, code) improved, no other topic fell
below the draft that does not learn by more than .01, and the last third of the requests was answered faster than by the
better of the two others. A topic whose last third has fewer than two scored answers is no evidence: the table says so,
and only the new topics fail for it."""
import hashlib
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import time

import demo_prompts

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import closed_loop  # noqa: E402

BUILD = ROOT / "build"
WORK = BUILD / "demo"
SHAPE = {"hidden": 1536, "layers": 6, "ffn": 4096, "heads": 24, "kv-heads": 8}
NEW_TOPICS = ("sql", "code")  # topics that the base draft was not trained on
CLIENTS = 2
BLOCKS = 20                  # turns of each arm, seconds each, so that a machine that slows down for a while slows all
PROBES = 8                    # requests that measure each arm's speed first; they are kept out of learning
BUDGET_S = 270                # answering time of all arms; the rest of six minutes is start-up and the reports
FEWEST, MOST = 60, 480
ONE_SIDED_95, TWO_SIDED_95 = 1.645, 1.96
RECENT = 12                   # requests behind "α now"
SAME_ALPHA = 0.01             # tolerated loss of α of a topic that was not new
TTY = sys.stdout.isatty()
COLOR = TTY and "NO_COLOR" not in os.environ
SPARKS = "▁▂▃▄▅▆▇█"
ARM_WORDS = {"plain": "plain decoding", "static": "static draft", "learning": "learning"}


def say(text=""):
    print(text, flush=True)


def styled(text, code):
    return f"\033[{code}m{text}\033[0m" if COLOR else text


def bold(text):
    return styled(text, "1")


def run_checked(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"demo: {command[0]} failed ({done.returncode}):\n{done.stderr[-2000:]}")
    return done.stdout


def sparkline(values, low=None, high=None):
    """One character a value; without bounds, from the least to the greatest, at least .05 apart."""
    if not values:
        return ""
    low = min(values) if low is None else low
    high = max(max(values), low + 0.05) if high is None else high
    return "".join(SPARKS[max(0, min(7, int((value - low) / (high - low) * 7.99)))] for value in values)


def in_groups(replies, width=8):
    """The replies in at most `width` groups that follow each other, all but the last as large."""
    size = max(1, -(-len(replies) // width))
    return [replies[i:i + size] for i in range(0, len(replies), size)]


def answered(arm):
    return [reply for reply in arm.replies if reply is not None]


class LiveTable:
    """Redrawn on a terminal, printed now and then elsewhere; what became of drafts scrolls above it."""

    EVERY_S = 20  # interval of printing if the output is no terminal

    def __init__(self, arms, totals, database):
        self.arms, self.totals, self.database = arms, totals, database
        self.drawn, self.last_event, self.printed = 0, 0, 0.0

    def lines(self):
        learned, static = self.arms["learning"], self.arms["static"]
        yield bold(f"{'topic':<8}{'requests':>9}   {'α now':>5}  {'static':>6}   {'α of the learning draft so far':<32}{'draft':<6}")
        for topic, total in self.totals.items():
            ours = closed_loop.of_topic(answered(learned), topic)
            both = [(a, b) for a, b in zip(learned.replies, static.replies) if a and b and a.topic == topic]
            theirs = f"{closed_loop.alpha([b for _, b in both][-RECENT:]):.2f}" if both else "–"
            now = f"{closed_loop.alpha(ours[-RECENT:]):.2f}" if ours else "–"
            version = max((reply.version for reply in ours), default=0)
            spark = sparkline([closed_loop.alpha(group) for group in in_groups(ours, 24)])
            yield (f"{topic:<8}{f'{len(ours)}/{total}':>9}   {now:>5}  {theirs:>6}   {styled(f'{spark:<32}', '36')}"
                   f"{'v' + str(version) if version else 'base':<6}")
        yield "tokens/s  " + " · ".join(f"{ARM_WORDS[name]} {self.speed(arm)}" for name, arm in self.arms.items())

    @staticmethod
    def speed(arm):
        done = answered(arm)
        return f"{sum(reply.tokens for reply in done) / max(reply.finished for reply in done):.0f}" if done else "–"

    def draw(self, final=False):
        events = closed_loop.decisions(self.database, self.last_event)
        if not (TTY or final or events) and time.monotonic() - self.printed < self.EVERY_S:
            return
        self.printed = time.monotonic()
        if TTY and self.drawn:
            sys.stdout.write(f"\033[{self.drawn}F\033[J")
        if events and not self.last_event:
            say("odds A of B below: A were reached that the decision is right, of B asked for; B is below 1 where the "
                "draft's probabilities already show the gain")
        for at, topic, kind, live, candidate, reason in events:
            self.last_event = at
            clock = time.strftime("%H:%M:%S", time.localtime(at / 1e6))
            what = {"publish": styled(f"v{live}→v{candidate} published", "32"), "refuse": "candidate refused",
                    "rollback": styled(f"v{live} rolled back", "33")}.get(kind, kind)
            say(f"{clock} {topic} {what}: {reason}")
        lines = list(self.lines())
        say("\n".join(lines))
        self.drawn = len(lines)


def requests_that_fit(seconds_per_request):
    """As many as BUDGET_S allows for all arms together, within FEWEST and MOST, in tens so that the topics keep their shares."""
    return max(FEWEST, min(MOST, int(BUDGET_S / seconds_per_request) // 10 * 10))


def make_requests(count, seed=7, store=True):
    return [closed_loop.Request(topic, label, prompt, closed_loop.SYSTEM_PROMPT, store=store)
            for topic, label, prompt in demo_prompts.traffic(count, seed)]


def probe(services):
    """Seconds one request costs, all arms together; also their warm-up."""
    requests = make_requests(PROBES, seed=8, store=False)
    seconds = 0.0
    for name, service in services.items():
        arm = closed_loop.Arm(name, service, PROBES)
        arm.serve(requests, 0, PROBES, CLIENTS)
        seconds += arm.seconds
    return seconds / PROBES


def comparison(arms, database):
    """Per topic, learning beside the static draft; plain data for the last tables and the verdict. α is that of both drafts on the
    same answers, which the learner scores: what an arm serves depends on which of its tokens the planner asks for as well."""
    learned, static = arms["learning"].replies, arms["static"].replies
    topics = {}
    for topic in demo_prompts.SHARES:
        ours, theirs = closed_loop.of_topic(learned, topic), closed_loop.of_topic(static, topic)
        late, late_static = closed_loop.last_third(ours), closed_loop.last_third(theirs)
        live, base = closed_loop.same_text(database, topic)
        late_live, late_base = closed_loop.last_third(live), closed_loop.last_third(base)
        gain, error = closed_loop.paired_gain(late_live, late_base)
        topics[topic] = {"requests": len(ours), "alpha": closed_loop.alpha(live), "base_alpha_same_text": closed_loop.alpha(base),
                         "scored": len(late_live), "gain": gain, "error": error,
                         "last_alpha": closed_loop.alpha(late_live), "last_base_alpha": closed_loop.alpha(late_base),
                         "accepted_length": closed_loop.accepted_length(late), "base_accepted_length": closed_loop.accepted_length(late_static),
                         "tokens_per_s": closed_loop.tokens_per_s(ours), "draft_version": max(reply.version for reply in ours)}
    speeds = {}
    for name, arm in arms.items():
        third = len(arm.replies) // 3
        speeds[name] = {"whole": sum(reply.tokens for reply in arm.replies) / arm.seconds,
                        "first": closed_loop.tokens_per_s(arm.replies[:third]),
                        "last": closed_loop.tokens_per_s(arm.replies[-third:])}
    return {"topics": topics, "speeds": speeds, "turns": late_turn_ratios(arms)}


def late_turn_ratios(arms):
    """Speed of learning over that of the static draft in each turn of the last third: how much the machine itself varies."""
    n = len(arms["learning"].replies)
    turns = [(first, last) for name, first, last in closed_loop.turns(["learning"], n, BLOCKS) if first >= n - n // 3]
    speed = {name: [closed_loop.tokens_per_s(arms[name].replies[first:last]) for first, last in turns] for name in ("learning", "static")}
    return [ours / max(1e-9, theirs) for ours, theirs in zip(speed["learning"], speed["static"], strict=True)]


def failures(found, different):
    """{kind: sentence} of what the demo promises and did not keep. Pure."""
    failed = {}
    if different:
        failed["answers"] = f"{different} answers differ between the arms: speculation must never change one"
    for topic, one in found["topics"].items():
        if topic in NEW_TOPICS and not one["gain"] - ONE_SIDED_95 * one["error"] > 0:
            failed[f"learning {topic}"] = (f"{topic} did not improve: α {one['last_alpha']:.3f} in its last third, the static draft's "
                                           f"{one['last_base_alpha']:.3f} (gain {one['gain']:+.3f}, standard error {one['error']:.3f})")
        if topic not in NEW_TOPICS and one["gain"] + TWO_SIDED_95 * one["error"] < -SAME_ALPHA:
            failed[f"below base {topic}"] = f"{topic} fell below the static draft by {-one['gain']:.3f} α in its last third"
    last = {name: speed["last"] for name, speed in found["speeds"].items()}
    best = max((name for name in last if name != "learning"), key=last.get)
    if last["learning"] < last[best]:
        failed["speed"] = (f"the last third with learning was slower than {ARM_WORDS[best]}: {last['learning']:.1f} tokens/s "
                           f"against {last[best]:.1f}")
    return failed


def last_tables(found, equal, total):
    yield bold(f"{'':<8}{'':>9}   {'α, last third':^22}    {'gain':<22}{'tokens a target step':<22}")
    yield bold(f"{'topic':<8}{'requests':>9}   {'static':>8} → {'learning':<11}    {'(95 % interval)':<22}{'static':>6} → {'learning':<9}")
    for topic, one in found["topics"].items():
        half = TWO_SIDED_95 * one["error"]
        interval = f"{one['gain']:+.2f} [{one['gain'] - half:+.2f}, {one['gain'] + half:+.2f}]"
        interval = interval if math.isfinite(half) else "no evidence"
        yield (f"{topic:<8}{one['requests']:>9}   {one['last_base_alpha']:>8.2f} → {one['last_alpha']:<11.2f}    {interval:<22}"
               f"{one['base_accepted_length']:>6.2f} → {one['accepted_length']:<9.2f}{'  new traffic' if topic in NEW_TOPICS else ''}")
    yield ""
    yield bold(f"{'tokens/s':<18}{'whole run':>10}{'first third':>13}{'last third':>12}")
    best = max(speed["last"] for speed in found["speeds"].values())
    for name in ("plain", "static", "learning"):
        speed = found["speeds"][name]
        row = f"{ARM_WORDS[name]:<18}{speed['whole']:>10.0f}{speed['first']:>13.0f}{speed['last']:>12.0f}"
        yield styled(row, "32") if speed["last"] == best else row
    yield "learning / static in each turn of the last third: " + " ".join(f"{ratio:.2f}" for ratio in found["turns"])
    yield ""
    yield f"answers equal in all three: {equal} of {total}"


def verdict(found):
    """One sentence of what the figures say. Pure."""
    topics, speeds = found["topics"], found["speeds"]
    moved = ", ".join(f"{topic} {topics[topic]['last_base_alpha']:.2f} → {topics[topic]['last_alpha']:.2f}" for topic in NEW_TOPICS)
    ours = speeds["learning"]["last"]
    return (f"On traffic it was never trained on, α went {moved}; the last third ran at {ours / speeds['static']['last']:.2f} × the static "
            f"draft and {ours / speeds['plain']['last']:.2f} × plain decoding, every answer the same.")


def summary(found, different, total, failed):
    def finite(value):
        return None if isinstance(value, float) and not math.isfinite(value) else value  # JSON has no infinity

    topics = [{"topic": topic, **{key: finite(value) for key, value in one.items()}}
              for topic, one in found["topics"].items()]
    return {"requests": total, "topics": topics, "speeds": found["speeds"], "late_turn_ratios": found["turns"],
            "lossless": {"checked": total, "different": different},
            "failures": sorted(failed)}


def write_reports(database):
    shutil.copy(database, WORK / "ledger.db")
    text = "\n".join(run_checked([BUILD / "slipstream", "report", kind, "--db", WORK / "ledger.db"]) for kind in ("topics", "drafts"))
    (WORK / "report.txt").write_text(text)
    (WORK / "report.svg").write_text(run_checked([BUILD / "slipstream", "report", "drift", "--db", WORK / "ledger.db", "--format", "svg"]))


def inflation_stamp(source):
    """What an inflated target is made of: the shape, and the SHA-256 of each file of the target that is inflated."""
    paths = sorted(path for path in source.iterdir() if path.is_file())
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    return json.dumps({"shape": SHAPE, "files": files}, indent=1) + "\n"


def inflated_target(source=ROOT / "checkpoints/demo/target"):
    """An earlier run's, unless the shape or the embedded target has changed since."""
    target, stamp_file = WORK / "target-160m", WORK / "target-160m.json"
    stamp = inflation_stamp(source)
    if not ((target / "model.safetensors").exists() and stamp_file.exists() and stamp_file.read_text() == stamp):
        stamp_file.unlink(missing_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        say("Inflating the embedded target to 160M parameters: the same function at a larger model's cost …")
        run_checked([BUILD / "bench/inflate", "--from", source, "--to", target]
                    + [part for key, value in SHAPE.items() for part in (f"--{key}", value)])
        stamp_file.write_text(stamp)
    return target


def start_services(running):
    """Starts one service an arm; `running` has each as soon as it runs, so that an interruption finds it."""
    model = ["--target", inflated_target(), "--draft", ROOT / "checkpoints/demo/draft"]
    for name in ("learning", "static", "plain"):
        running[name] = closed_loop.Service(BUILD / "slipstream", name, WORK, model + closed_loop.ARMS[name])
        running[name].set_learning(False)
    return running


def compare(services):
    """All arms' answers to the same requests, with the live table on the way."""
    per_request = probe(services)
    requests = make_requests(requests_that_fit(per_request))
    totals = {topic: sum(1 for one in requests if one.topic == topic) for topic in demo_prompts.SHARES}
    say(f"{len(requests)} requests in random order ({', '.join(f'{n} {t}' for t, n in totals.items())}), {CLIENTS} clients that never pause, "
        f"a shared system prompt; about {len(requests) * per_request / 60:.0f} minutes.")
    say(f"The base draft was trained on math and lang; {' and '.join(NEW_TOPICS)} are new to it. The arms answer the same requests in turns.\n")
    arms = {name: closed_loop.Arm(name, service, len(requests)) for name, service in services.items()}
    table = LiveTable(arms, totals, services["learning"].data / "ledger.db")
    for name, first, last in closed_loop.turns(list(arms), len(requests), BLOCKS):
        arms[name].serve(requests, first, last, CLIENTS, on_reply=lambda arm, reply: table.draw())
    table.draw(final=True)
    return arms


def demo():
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "summary.json").unlink(missing_ok=True)  # of an earlier run
    began, services = time.monotonic(), {}
    try:
        start_services(services)
        say(bold("Slipstream demo · target 160M (12.6M inflated: a small model at a large one's cost) · " + services["learning"].url))
        arms = compare(services)
    finally:
        for service in services.values():
            service.stop()
    write_reports(services["learning"].data / "ledger.db")
    total = len(arms["learning"].replies)
    different = len(closed_loop.different_answers(list(arms.values())))
    found = comparison(arms, WORK / "ledger.db")
    failed = failures(found, different)
    say("\n" + "\n".join(last_tables(found, total - different, total)) + "\n")
    (WORK / "summary.json").write_text(json.dumps(summary(found, different, total, failed), indent=1) + "\n")
    for sentence in failed.values():
        say(styled(f"demo: {sentence}", "31"))
    if not failed:
        say(bold(verdict(found)))
    say(f"{time.monotonic() - began:.0f} s. Acceptance and speed are real, the answers are a small model's. More: build/demo/report.txt, report.svg, "
        "summary.json, ledger.db")
    return 1 if failed else 0


def main():
    try:
        sys.exit(demo())
    except closed_loop.ServiceError as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        say("\ndemo: stopped")
        sys.exit(130)


if __name__ == "__main__":
    main()
