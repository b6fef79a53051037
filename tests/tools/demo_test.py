#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `make demo` prints and decides, without its five minutes: the live table with and without a terminal or colour, the
number of requests, the paired gain, and that Ctrl-C leaves nothing running."""
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

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import demo  # noqa: E402
import demo_prompts  # noqa: E402

DRAW = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import demo
figures = demo.Figures()
table = demo.LiveTable({"sql": 4})
for accepted in (1, 2, 3):
    figures.add({"metrics": {"speculative_decoding": {"num_spec_steps": 4, "num_accepted_draft_tokens": accepted,
                                                      "num_first_rejections": 2, "draft_version": 1}},
                 "usage": {"completion_tokens": 6}, "seconds": 0.5})
    table.draw({"sql": figures}, pathlib.Path("/nonexistent/ledger.db"), final=accepted == 3)
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
        self.assertIn("\033[J", seen)

    def test_a_pipe_gets_plain_lines_and_the_last_state(self):
        seen = draw_on(terminal=False)
        self.assertNotIn("\033", seen)
        self.assertIn("3/4", seen.splitlines()[-1])
        self.assertIn("0.50", seen.splitlines()[-1])  # 6 of 12


class DecisionsTest(unittest.TestCase):
    def test_a_slow_machine_gets_fewer_requests_not_a_failure(self):
        counts = [demo.requests_per_topic(ms) for ms in (1, 10, 20, 40, 80, 400)]
        self.assertEqual((counts[0], counts[-1]), (60, 20))
        self.assertEqual(counts, sorted(counts, reverse=True))

    def test_topics_come_back(self):
        visits = [topic for topic, _, _ in demo_prompts.stream(20)]
        changes = [topic for before, topic in zip([None] + visits, visits) if topic != before]
        self.assertGreater(len(changes), len(set(changes)), "no topic is visited twice")
        self.assertGreaterEqual({label for _, label, _ in demo_prompts.stream(20)}, {"sql", "math"})

    def ledger(self, rows):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "ledger.db"
        with sqlite3.connect(file) as db:
            db.execute("CREATE TABLE same_text (topic, live_accepted, live_first_rejections, base_accepted, base_first_rejections, at_us)")
            db.executemany("INSERT INTO same_text VALUES ('sql', ?, ?, ?, ?, ?)", [(*row, at) for at, row in enumerate(rows)])
        return file

    def test_the_gain_is_paired_and_has_an_interval(self):
        score = demo.same_text(self.ledger([(6, 4, 4, 6), (7, 3, 5, 5), (5, 5, 3, 7), (6, 4, 4, 6)]))["sql"]
        self.assertAlmostEqual(score["gain"], 0.2)
        self.assertLess(score["low"], score["gain"])  # always two better of ten: the interval is narrow, not empty
        self.assertGreater(score["low"], 0.15)
        self.assertEqual(demo.topics_below_base({"sql": score}), [])

    def test_a_draft_below_the_base_draft_is_named(self):
        score = demo.same_text(self.ledger([(4, 6, 6, 4), (5, 5, 7, 3), (3, 7, 5, 5)]))["sql"]
        self.assertEqual(demo.topics_below_base({"sql": score}), ["sql"])

    def test_a_wide_interval_below_zero_is_no_failure(self):
        score = demo.same_text(self.ledger([(0, 9, 9, 1), (9, 1, 4, 6)]))["sql"]
        self.assertLess(score["gain"], 0)
        self.assertEqual(demo.topics_below_base({"sql": score}), [])

    def test_the_summary_has_the_promised_keys(self):
        found = demo.summary({"sql": demo.Figures()}, {}, {"checked": 20, "different": 0})
        self.assertEqual(set(found), {"requests", "topics", "lossless"})
        self.assertEqual(set(found["topics"][0]), {"topic", "requests", "alpha", "base_alpha_same_text", "last_alpha", "accepted_length",
                                                   "tokens_per_s", "draft_version"})
        json.dumps(found)


@unittest.skipUnless((demo.BUILD / "slipstream").exists(), "needs build/slipstream")
class InterruptTest(unittest.TestCase):
    def test_ctrl_c_leaves_nothing_running(self):
        with tempfile.TemporaryDirectory() as folder:
            script = (f"import sys, pathlib; sys.path.insert(0, {str(ROOT / 'tools')!r}); import demo\n"
                      f"demo.WORK = pathlib.Path({folder!r})\n"
                      "demo.step_ms = lambda target: 10.0\n"
                      "demo.SHAPE = {'hidden': 384, 'layers': 6, 'ffn': 1024, 'heads': 6, 'kv-heads': 2}\n"
                      "demo.main()\n")
            running = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       start_new_session=True)
            log = pathlib.Path(folder) / "learning.log"
            for _ in range(600):
                if log.exists() and "http://" in log.read_text():
                    break
                time.sleep(0.1)
                self.assertIsNone(running.poll(), running.stdout.read() if running.poll() is not None else "")
            running.send_signal(signal.SIGINT)
            output = running.communicate(timeout=60)[0]
            self.assertEqual(running.returncode, 130, output)
            self.assertIn("demo: stopped", output)
            left = [pid for pid in os.listdir("/proc") if pid.isdigit() and folder in self.command_of(pid)]
            self.assertEqual(left, [])

    @staticmethod
    def command_of(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return ""


if __name__ == "__main__":
    unittest.main()
