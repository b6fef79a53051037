#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/closed_loop.py: whose turn it is, the clocks, the figures and their intervals on services of our own making, and one
real service that starts, answers, stops learning and ends."""
import contextlib
import io
import json
import math
import pathlib
import sqlite3
import sys
import tempfile
import threading
import time
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import closed_loop  # noqa: E402
import service  # noqa: E402

PROGRAM, TARGET, DRAFT = ROOT / "build/slipstream", ROOT / "checkpoints/demo/target", ROOT / "checkpoints/demo/draft"


def reply(topic="sql", accepted=6, rejections=4, tokens=10, steps=5, started=0.0, finished=1.0, text="a", version=0):
    return closed_loop.Reply(topic, text, tokens, steps, accepted, rejections, version, started, finished)


class StandIn:
    """A service that answers after a moment and writes down when it may learn and how many requests it has at once."""

    def __init__(self, fail_at=None):
        self.switched, self.most, self.running, self.asked = [], 0, 0, []
        self.lock, self.fail_at = threading.Lock(), fail_at

    def set_learning(self, on):
        self.switched.append(on)

    def rss_mib(self):
        return 100.0

    def idle_class_seconds(self):
        return 0.5

    def chat(self, request):
        with self.lock:
            self.asked.append(request.prompt)
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(0.01)
        with self.lock:
            self.running -= 1
        if request.prompt == self.fail_at:
            raise closed_loop.ServiceError("500: out of order")
        return {"choices": [{"message": {"content": request.prompt.upper()}}], "usage": {"completion_tokens": 4},
                "metrics": {"speculative_decoding": {"num_spec_steps": 2, "num_accepted_draft_tokens": 2, "num_first_rejections": 1,
                                                     "draft_version": None}}}


class Reports(unittest.TestCase):
    def test_a_result_is_a_table_a_file_beside_it_or_json_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "out.json"
            shown = {}
            for name in (None, str(file), "-"):
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    closed_loop.report({"a": 1}, name, lambda result: print(f"a is {result['a']}"))
                shown[name] = out.getvalue()
            self.assertEqual(shown, {None: "a is 1\n", str(file): "a is 1\n", "-": file.read_text()})
            self.assertEqual(json.loads(file.read_text()), {"a": 1})


class Arms(unittest.TestCase):
    def test_a_shuffled_draft_has_the_same_values_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = service.draft_of("shuffled", DRAFT, pathlib.Path(folder))
            before, after = (path.joinpath("model.safetensors").read_bytes() for path in (DRAFT, copy))
        self.assertNotEqual(before, after)
        self.assertEqual(sorted(before), sorted(after))
        header = 8 + int.from_bytes(before[:8], "little")
        self.assertEqual(before[:header], after[:header])

    def test_an_arm_may_name_one_more_option(self):
        self.assertEqual(closed_loop.arguments_of("static"), ["--no-learning"])
        self.assertEqual(closed_loop.arguments_of("static:k=5"), ["--no-learning", "--k=5"])
        with self.assertRaises(KeyError):
            closed_loop.arguments_of("statik:k=5")

    def test_untrained_adds_its_key_to_the_learning_section(self):
        added = closed_loop.config_of("untrained", "[a]\nb = 1\n[learning]\nc = 2\n")
        self.assertEqual(tomllib.loads(added), {"a": {"b": 1}, "learning": {"governor": "steps_per_request:0", "c": 2}})
        self.assertEqual(tomllib.loads(closed_loop.config_of("untrained", "")), {"learning": {"governor": "steps_per_request:0"}})
        self.assertEqual(closed_loop.config_of("learning", "[a]\nb = 1\n"), "[a]\nb = 1\n")


class TurnsTest(unittest.TestCase):
    def test_every_arm_serves_every_request_once_and_in_order(self):
        order = closed_loop.turns(["a", "b", "c"], 20, 6)
        for name in "abc":
            blocks = [(first, last) for who, first, last in order if who == name]
            self.assertEqual([i for first, last in blocks for i in range(first, last)], list(range(20)))

    def test_an_even_drift_favours_no_arm(self):
        order = closed_loop.turns(["a", "b", "c"], 12, 6)
        middle = {name: [at for at, (who, _, _) in enumerate(order) if who == name] for name in "abc"}
        for pair in range(3):
            sums = {name: sum(middle[name][2 * pair:2 * pair + 2]) for name in "abc"}
            self.assertEqual(len(set(sums.values())), 1, sums)

    def test_an_arm_learns_during_its_turns_alone_and_its_clock_stands_between(self):
        requests = [closed_loop.Request("sql", "sql", str(i)) for i in range(8)]
        stand_in = StandIn()
        arm = closed_loop.Arm("learning", stand_in, 8)
        arm.serve(requests, 0, 4, clients=2)
        first = arm.seconds
        time.sleep(0.3)
        arm.serve(requests, 4, 8, clients=2)
        self.assertEqual(stand_in.switched, [False, True, False, True, False])
        self.assertEqual((stand_in.most, sorted(stand_in.asked)), (2, [str(i) for i in range(8)]))
        self.assertLess(arm.replies[4].started, first + 0.2)
        self.assertEqual([one.text for one in arm.replies], [str(i) for i in range(8)])
        self.assertEqual([mib for _, mib in arm.memory], [100.0, 100.0])

    def test_a_failed_request_ends_the_turn(self):
        requests = [closed_loop.Request("sql", "sql", str(i)) for i in range(50)]
        stand_in = StandIn(fail_at="3")
        arm = closed_loop.Arm("learning", stand_in, 50)
        with self.assertRaises(closed_loop.ServiceError):
            arm.serve(requests, 0, 50, clients=2)
        self.assertLess(len(stand_in.asked), 10)
        self.assertEqual(stand_in.switched[-1], False)


class FiguresTest(unittest.TestCase):
    def test_alpha_and_length_are_ratios_of_sums(self):
        replies = [reply(accepted=9, rejections=1, tokens=12, steps=4), reply(accepted=1, rejections=9, tokens=8, steps=6)]
        self.assertAlmostEqual(closed_loop.alpha(replies), 0.5)
        self.assertAlmostEqual(closed_loop.accepted_length(replies), 2.0)
        self.assertEqual(closed_loop.alpha([reply(accepted=0, rejections=0)]), 0)

    def test_speed_counts_overlapping_answers_over_their_common_time(self):
        replies = [reply(tokens=10, started=0, finished=2), reply(tokens=10, started=0, finished=1), reply(tokens=20, started=1, finished=4)]
        self.assertAlmostEqual(closed_loop.tokens_per_s(replies), 10)
        self.assertEqual(closed_loop.tokens_per_s([]), 0)

    def test_the_time_of_a_step_leaves_out_answers_without_steps(self):
        replies = [reply(steps=4, started=0, finished=2), reply(steps=6, started=1, finished=2), reply(steps=0, started=0, finished=9)]
        self.assertAlmostEqual(closed_loop.step_ms(replies), 300)
        self.assertEqual(closed_loop.step_ms(replies[2:]), 0)

    def test_the_gain_is_paired(self):
        ours = [reply(accepted=a, rejections=10 - a) for a in (6, 7, 5, 6)]
        theirs = [reply(accepted=a - 2, rejections=12 - a) for a in (6, 7, 5, 6)]
        gain, error = closed_loop.paired_gain(ours, theirs)
        self.assertAlmostEqual(gain, 0.2)
        self.assertLess(error, 0.01)  # always two better of ten, however the requests differ
        gain, error = closed_loop.paired_gain(ours, list(reversed(theirs[:3])) + theirs[3:])
        self.assertAlmostEqual(gain, 0.2)
        self.assertGreater(error, 0.03)  # the control: pairs that belong to other requests
        self.assertEqual(closed_loop.paired_gain([reply()], [reply()])[1], math.inf)

    def test_an_answer_that_differs_in_one_arm_is_found(self):
        arms = []
        for texts in (["a", "b", "c"], ["a", "b", "c"], ["a", "x", "c"]):
            arm = closed_loop.Arm("one", StandIn(), 3)
            arm.replies = [reply(text=text) for text in texts]
            arms.append(arm)
        self.assertEqual(closed_loop.different_answers(arms), [1])
        self.assertEqual(closed_loop.different_answers(arms[:2]), [])

    def test_a_ledger_that_is_not_there_has_no_decisions(self):
        self.assertEqual(closed_loop.decisions(pathlib.Path("/nonexistent/ledger.db")), [])


class RequestsTest(unittest.TestCase):
    PROMPTS = {topic: [(topic, f"{topic} {i}") for i in range(30)] for topic in service.TOPICS}

    def made(self, order, seed=1):
        return [one.prompt for one in service.make_requests(self.PROMPTS, 20, order, "", 96, seed)]

    def test_orders(self):
        self.assertEqual([prompt.split()[0] for prompt in self.made("visits")], [topic for topic in service.TOPICS for _ in range(20)])
        self.assertEqual([prompt.split()[0] for prompt in self.made("round-robin")[:8]], list(service.TOPICS) * 2)
        self.assertEqual(sorted(self.made("mixed")), sorted(self.made("visits")))
        self.assertNotEqual(self.made("mixed"), self.made("round-robin"))

    def test_no_prompt_comes_twice_and_seeds_differ(self):
        self.assertEqual(len(set(self.made("mixed"))), 80)
        self.assertEqual(self.made("mixed"), self.made("mixed"))
        self.assertNotEqual(self.made("mixed"), self.made("mixed", seed=2))

    def test_prompts_to_learn_from_are_not_those_of_the_arms(self):
        first, others = service.set_apart(self.PROMPTS, 12)
        for topic in service.TOPICS:
            self.assertEqual((len(first[topic]), len(others[topic])), (12, 18))
            self.assertEqual(sorted(first[topic] + others[topic]), sorted(self.PROMPTS[topic]))
        for n in (31, -1):
            with self.assertRaisesRegex(SystemExit, f"--learn-first {n}, but sql.jsonl has 30 prompts"):
                service.set_apart(self.PROMPTS, n)

    def test_without_prompts_to_learn_from_a_seed_draws_the_requests_of_recorded_runs(self):
        # Bug: the prompts were shuffled even then, so a seed drew other requests than before.
        self.assertEqual(service.set_apart(self.PROMPTS, 0), ({topic: [] for topic in service.TOPICS}, self.PROMPTS))

    def test_medians_compare_learning_with_the_best_other_arm(self):
        def run(learning, static, plain):
            speed = lambda value: {"tokens_per_s": dict.fromkeys(service.SPEEDS, value)}  # noqa: E731
            return {"arms": {"learning": speed(learning), "static": speed(static), "plain": speed(plain)}, "gains": {}, "different": 1}
        found = service.medians([run(12, 10, 8), run(9, 10, 10), run(11, 5, 10)])
        self.assertAlmostEqual(found["learning_to_best_other"]["whole"], 1.1)
        self.assertEqual(found["different"], 3)

    def test_a_topic_without_scored_answers_has_no_gain(self):
        # Bug: its gain was 0.000, as if its draft had been measured and were no better.
        with tempfile.TemporaryDirectory() as folder:
            database = pathlib.Path(folder) / "ledger.db"
            with contextlib.closing(sqlite3.connect(database)) as ledger, ledger:
                ledger.execute("CREATE TABLE same_text (id INTEGER PRIMARY KEY, topic TEXT, live_accepted REAL, "
                               "live_first_rejections REAL, base_accepted REAL, base_first_rejections REAL)")
                ledger.executemany("INSERT INTO same_text VALUES (?, 'sql', 6, 4, 4, 6)", [(i,) for i in range(6)])
            gains = {topic: service.late_gain(database, topic) for topic in ("sql", "math")}
        self.assertEqual(gains["math"], {"gain": None, "standard_error": None, "scored_answers": 0})
        self.assertAlmostEqual(gains["sql"]["gain"], 0.2)

        def run(sql):
            speed = {"tokens_per_s": dict.fromkeys(service.SPEEDS, 1)}
            return {"arms": {"learning": speed}, "gains": {"sql": {"gain": sql}, "math": gains["math"]}, "different": 0}
        found = service.medians([run(0.1), run(None), run(0.3)])["gains"]
        self.assertEqual(found, {"sql": 0.2, "math": None})
        self.assertEqual(service.gains_as_text(found), "sql +0.200 math –")


@unittest.skipUnless(PROGRAM.exists(), "needs build/slipstream")
class RealServiceTest(unittest.TestCase):
    def test_it_starts_answers_stops_learning_and_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            running = closed_loop.Service(PROGRAM, "learning", pathlib.Path(folder), ["--target", TARGET, "--draft", DRAFT],
                                          "[speculation]\nk = 2\n[learning]\nsteps_per_request = 2.0\n")
            try:
                arm = closed_loop.Arm("learning", running, 1)
                arm.serve([closed_loop.Request("math", "math", "Mira has 3 apples.", closed_loop.SYSTEM_PROMPT, max_tokens=8)], 0, 1, 1)
                self.assertGreater(arm.replies[0].tokens, 0)
                self.assertGreater(arm.replies[0].steps, 0)
                self.assertGreater(running.rss_mib(), 10)
                self.assertIn("slipstream:", running.metrics())
                self.assertEqual(running.live_version("math"), 0)
                self.assertIn("changed: learning.enabled", running.log.read_text())
            finally:
                running.stop()
            self.assertEqual(running.process.poll(), 0)

    def test_it_serves_the_drafts_that_another_service_left(self):
        question = closed_loop.Request("math", "math", "Mira has 3 apples.", max_tokens=4)
        model = service.model_of(TARGET, DRAFT)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(closed_loop.ServiceError, "no draft was published"):
                closed_loop.learn_drafts(PROGRAM, pathlib.Path(folder), model, [question], 1)
            drafts = pathlib.Path(folder, "learn-first/drafts")
            (drafts / "sql/v000001").mkdir(parents=True)
            self.assertEqual(closed_loop.count_published(drafts), 1)
            (drafts / "sql/v000001").rmdir()
            (drafts / "sql").rmdir()
            marked = next(drafts.rglob("model.safetensors")).parent / "meta.json"
            before = marked.read_bytes()
            running = closed_loop.Service(PROGRAM, "learned", pathlib.Path(folder), model + closed_loop.arguments_of("learned"), drafts=drafts)
            running.stop()
            self.assertEqual((running.data / "drafts" / marked.relative_to(drafts)).read_bytes(), before)

    def test_drafts_are_learned_with_the_configuration_of_the_arms(self):
        # Bug: they were learned with the defaults, whatever --config said.
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(closed_loop.ServiceError, "server.port"):
            closed_loop.learn_drafts(PROGRAM, pathlib.Path(folder), service.model_of(TARGET, DRAFT), [], 1, "[server]\nprot = 1\n")

    def test_a_service_that_cannot_start_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(closed_loop.ServiceError, "nowhere"):
                closed_loop.Service(PROGRAM, "static", pathlib.Path(folder), ["--target", "nowhere"])


if __name__ == "__main__":
    unittest.main()
