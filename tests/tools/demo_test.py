#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `make demo` prints and decides, without its minutes: the live table with and without a terminal or colour, the number of
requests, its prompts, every promise that it fails on, and that Ctrl-C leaves nothing running."""
import contextlib
import json
import os
import pathlib
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import demo  # noqa: E402
import demo_prompts  # noqa: E402
from demo import closed_loop  # noqa: E402

DRAW = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import demo
from demo import closed_loop

class Quiet:
    def set_learning(self, on): pass

arms = {name: closed_loop.Arm(name, Quiet(), 4) for name in ("learning", "static", "plain")}
table = demo.LiveTable(arms, {"sql": 4}, pathlib.Path("/nonexistent/ledger.db"))
for i in range(3):
    for arm in arms.values():
        arm.replies[i] = closed_loop.Reply("sql", "", 6, 4, 1 + i, 2, 1, float(i), i + 1.0)
    table.draw(final=i == 2)
"""


def draw_on(terminal, **environment):
    """What the live table writes into a pipe, or onto a terminal."""
    env = {"PATH": os.environ["PATH"], "TERM": "xterm", **environment}
    command = [sys.executable, "-c", DRAW, str(ROOT / "tools")]
    if not terminal:
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    try:
        master, slave = pty.openpty()
    except OSError as error:
        raise unittest.SkipTest("no pseudo-terminals here") from error
    drawing = subprocess.Popen(command, env=env, stdout=slave)
    os.close(slave)
    seen = b""
    try:
        while block := os.read(master, 65536):
            seen += block
    except OSError:  # the other end is closed
        pass
    os.close(master)
    assert drawing.wait() == 0
    return seen.decode()


class LiveTableTest(unittest.TestCase):
    def test_a_terminal_is_redrawn_in_place(self):
        seen = draw_on(terminal=True)
        self.assertEqual(len(re.findall(r"\033\[\d+F\033\[J", seen)), 2)
        self.assertIn("\033[1m", seen)

    def test_no_color_takes_the_colours_and_keeps_the_drawing(self):
        seen = draw_on(terminal=True, NO_COLOR="1")
        self.assertNotIn("\033[1m", seen)
        self.assertNotIn("\033[36m", seen)
        self.assertIn("\033[J", seen)

    def test_a_pipe_gets_plain_lines_and_the_last_state(self):
        seen = draw_on(terminal=False)
        self.assertNotIn("\033", seen)
        self.assertIn("3/4", seen.splitlines()[-2])
        self.assertIn("0.50", seen.splitlines()[-2])  # 6 of 12
        self.assertIn("plain decoding 6", seen.splitlines()[-1])  # 18 tokens in 3 s


class PromptsTest(unittest.TestCase):
    def test_every_ten_requests_have_the_shares(self):
        traffic = demo_prompts.traffic(60)
        for ten in range(0, 60, 10):
            topics = [topic for topic, _, _ in traffic[ten:ten + 10]]
            self.assertEqual({topic: topics.count(topic) for topic in demo_prompts.SHARES}, demo_prompts.SHARES)
        self.assertNotEqual([one[0] for one in traffic[:10]], [one[0] for one in traffic[10:20]], "mixed, not in one order")

    def test_each_prompt_has_content_of_its_own(self):
        def shingles(text):
            words = text.split()
            return {tuple(words[i:i + 4]) for i in range(len(words) - 3)}

        for topic in demo.NEW_TOPICS:
            sets = [shingles(prompt) for one, _, prompt in demo_prompts.traffic(300) if one == topic]
            nearest = sorted(max(len(a & b) / len(a | b) for b in sets if b is not a) for a in sets)
            self.assertLess(nearest[len(nearest) * 9 // 10], 0.4, topic)

    def test_the_stream_of_all_topics_is_the_same_every_time(self):
        stream = demo_prompts.stream(12)
        self.assertEqual(stream, demo_prompts.stream(12))
        self.assertEqual([topic for topic, _, _ in stream], [topic for topic in demo_prompts.TEMPLATES for _ in range(12)])
        self.assertEqual(len({prompt for _, _, prompt in stream}), 48)


def found(**changes):
    """Figures of a run that keeps every promise, with changes: TOPIC={…} or ARM=last third's tokens/s."""
    good = {"last_alpha": 0.5, "last_base_alpha": 0.3, "gain": 0.2, "error": 0.05}
    flat = {"last_alpha": 0.4, "last_base_alpha": 0.4, "gain": 0.0, "error": 0.02}
    topics = {"sql": good, "code": good, "math": flat, "lang": flat}
    topics = {topic: {**one, **changes.get(topic, {})} for topic, one in topics.items()}
    speeds = {"plain": 100.0, "static": 110.0, "learning": 120.0}
    return {"topics": topics, "speeds": {name: {"last": changes.get(name, speed)} for name, speed in speeds.items()}}


class DecisionsTest(unittest.TestCase):
    def test_a_slow_machine_gets_fewer_requests_not_a_failure(self):
        counts = [demo.requests_that_fit(seconds) for seconds in (0.1, 1, 2, 3, 20)]
        self.assertEqual((counts[0], counts[-1]), (demo.MOST, demo.FEWEST))
        self.assertEqual(counts, sorted(counts, reverse=True))
        self.assertTrue(all(count % 10 == 0 for count in counts))

    def test_a_run_that_keeps_every_promise_does_not_fail(self):
        self.assertEqual(demo.failures(found(), 0), {})

    def test_a_different_answer_fails(self):
        self.assertEqual(set(demo.failures(found(), 1)), {"answers"})

    def test_new_traffic_that_did_not_improve_fails(self):
        self.assertEqual(set(demo.failures(found(sql={"gain": 0.0}), 0)), {"learning sql"})
        self.assertEqual(set(demo.failures(found(code={"gain": 0.05, "error": 0.04}), 0)), {"learning code"}, "it may be chance")
        self.assertEqual(set(demo.failures(found(code={"gain": float("nan")}), 0)), {"learning code"})
        self.assertEqual(demo.failures(found(code={"gain": 0.05, "error": 0.02}), 0), {})

    def test_another_topic_below_its_base_fails_unless_chance_explains_it(self):
        self.assertEqual(set(demo.failures(found(math={"gain": -0.05}), 0)), {"below base math"})
        self.assertEqual(demo.failures(found(math={"gain": -0.05, "error": 0.1}), 0), {})
        self.assertEqual(demo.failures(found(math={"gain": -0.009, "error": 0.001}), 0), {}, "the same draft at other lengths")

    def test_a_last_third_slower_than_the_better_of_the_others_fails(self):
        self.assertEqual(set(demo.failures(found(learning=109.0), 0)), {"speed"})
        self.assertEqual(set(demo.failures(found(plain=121.0), 0)), {"speed"})
        self.assertIn("plain decoding", demo.failures(found(plain=121.0), 0)["speed"])

    def test_all_that_failed_is_named(self):
        self.assertEqual(set(demo.failures(found(sql={"gain": -0.1}, learning=1.0), 2)), {"answers", "learning sql", "speed"})


class TablesTest(unittest.TestCase):
    def arms(self):
        class Quiet:
            def set_learning(self, on):
                pass

        arms = {}
        for name, seconds in (("learning", 0.8), ("static", 1.0), ("plain", 1.2)):
            arm = closed_loop.Arm(name, Quiet(), 40)
            for i, (topic, _, _) in enumerate(demo_prompts.traffic(40)):
                accepted = 0 if name == "plain" else 4 + (3 if name == "learning" and topic in demo.NEW_TOPICS and i >= 12 else 0)
                arm.replies[i] = closed_loop.Reply(topic, "a", 10 + i % 3, 5, accepted, 0 if name == "plain" else 10 - accepted, 0,
                                                   i * seconds, (i + 1) * seconds)
            arm.seconds = 40 * seconds
            arms[name] = arm
        return arms

    def database(self):
        """A ledger whose learner scored every answer: the live draft's last ones .3 above the base draft's .4."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "ledger.db"
        with contextlib.closing(sqlite3.connect(path)) as ledger, ledger:
            ledger.execute("CREATE TABLE same_text (id INTEGER PRIMARY KEY, topic TEXT, live_accepted REAL, live_first_rejections REAL, "
                           "base_accepted REAL, base_first_rejections REAL)")
            for i, (topic, _, _) in enumerate(demo_prompts.traffic(40)):
                learned = 3 if topic in demo.NEW_TOPICS and i >= 12 else 0
                ledger.execute("INSERT INTO same_text VALUES (?, ?, ?, ?, 4, 6)", (i, topic, 4 + learned, 6 - learned))
        return path

    def test_the_figures_are_of_the_last_third_and_paired(self):
        compared = demo.comparison(self.arms(), self.database())
        self.assertAlmostEqual(compared["topics"]["sql"]["gain"], 0.3)
        self.assertAlmostEqual(compared["topics"]["math"]["gain"], 0.0)
        self.assertAlmostEqual(compared["speeds"]["learning"]["last"] / compared["speeds"]["plain"]["last"], 1.5, delta=0.01)
        self.assertEqual(demo.failures(compared, 0), {})
        text = "\n".join(demo.last_tables(compared, 40, 40))
        self.assertIn("answers equal in all three: 40 of 40", text)
        self.assertRegex(text, r"(?m)^learning / static in each turn of the last third:( 1\.25)+$")
        self.assertIn("+0.30 [+0.30, +0.30]", text)
        self.assertIn("1.25 × the static draft and 1.50 × plain decoding", demo.verdict(compared))

    def test_a_topic_without_scored_answers_is_no_evidence_and_the_summary_stays_json(self):
        # Bug: the table had "+0.00 [-inf, +inf]" and the summary Infinity, so such a topic looked unharmed.
        database = self.database()
        with contextlib.closing(sqlite3.connect(database)) as ledger, ledger:
            ledger.execute("DELETE FROM same_text WHERE topic = 'math'")
        compared = demo.comparison(self.arms(), database)
        self.assertEqual(compared["topics"]["math"]["scored"], 0)
        rows = {line.split()[0]: line for line in demo.last_tables(compared, 40, 40) if line and line[0].isalpha()}
        self.assertIn("no evidence", rows["math"])
        self.assertNotIn("no evidence", rows["sql"])
        made = json.loads(json.dumps(demo.summary(compared, 0, 40, {}), allow_nan=False))
        self.assertIsNone(next(one for one in made["topics"] if one["topic"] == "math")["error"])

    def test_the_summary_has_the_promised_keys(self):
        compared = demo.comparison(self.arms(), self.database())
        made = demo.summary(compared, 0, 40, {"speed": "slow"})
        self.assertEqual(set(made), {"requests", "topics", "speeds", "late_turn_ratios", "lossless", "failures"})
        self.assertEqual(made["failures"], ["speed"])
        self.assertLessEqual({"topic", "requests", "alpha", "base_alpha_same_text", "last_alpha", "accepted_length", "tokens_per_s",
                              "draft_version"}, set(made["topics"][0]))
        json.dumps(made)


class InflatedTargetTest(unittest.TestCase):
    def test_it_is_made_anew_when_the_shape_or_the_embedded_target_changes(self):
        # Bug: the first one was used for ever.
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None):
            source, work, made = pathlib.Path(folder, "embedded"), pathlib.Path(folder, "work"), []
            source.mkdir()
            work.mkdir()
            (source / "model.safetensors").write_bytes(b"one")

            def inflate(command):
                made.append(command)
                (work / "target-160m").mkdir()
                (work / "target-160m/model.safetensors").touch()

            with mock.patch.multiple(demo, WORK=work, run_checked=inflate):
                demo.inflated_target(source)
                demo.inflated_target(source)
                self.assertEqual(len(made), 1)
                (source / "model.safetensors").write_bytes(b"two")
                demo.inflated_target(source)
                self.assertEqual(len(made), 2)
                with mock.patch.dict(demo.SHAPE, {"layers": 7}):
                    demo.inflated_target(source)
                self.assertEqual(len(made), 3)


@unittest.skipUnless((demo.BUILD / "slipstream").exists(), "needs build/slipstream")
class InterruptTest(unittest.TestCase):
    def start(self, folder, before_main=""):
        script = (f"import os, signal, subprocess, sys, pathlib; sys.path.insert(0, {str(ROOT / 'tools')!r}); import demo\n"
                  f"demo.WORK = pathlib.Path({folder!r})\n"
                  "demo.SHAPE = {'hidden': 384, 'layers': 6, 'ffn': 1024, 'heads': 6, 'kv-heads': 2}\n"
                  f"{before_main}\n"
                  "demo.main()\n")
        return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                start_new_session=True)

    def check_stopped(self, running, folder):
        output = running.communicate(timeout=60)[0]
        self.assertEqual(running.returncode, 130, output)
        self.assertIn("demo: stopped", output)
        left = {pid: self.command_of(pid) for pid in os.listdir("/proc") if pid.isdigit() and folder in self.command_of(pid)}
        self.assertEqual(left, {})

    def test_ctrl_c_leaves_nothing_running(self):
        with tempfile.TemporaryDirectory() as folder:
            running = self.start(folder)
            log = pathlib.Path(folder) / "learning.log"
            for _ in range(600):
                if log.exists() and "http://" in log.read_text():
                    break
                time.sleep(0.1)
                self.assertIsNone(running.poll(), running.stdout.read() if running.poll() is not None else "")
            running.send_signal(signal.SIGINT)
            self.check_stopped(running, folder)

    def test_ctrl_c_while_a_service_starts_stops_it_too(self):
        with tempfile.TemporaryDirectory() as folder:
            interrupt = ("start = subprocess.Popen\n"
                         "class Interrupted(start):\n"
                         "    def __init__(self, command, **options):\n"
                         "        super().__init__(command, **options)\n"
                         "        if 'serve' in command: os.kill(os.getpid(), signal.SIGINT)\n"
                         "subprocess.Popen = Interrupted")
            self.check_stopped(self.start(folder, interrupt), folder)

    @staticmethod
    def command_of(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return ""


if __name__ == "__main__":
    unittest.main()
