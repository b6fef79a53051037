#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/slo.py computes from answers."""

import argparse
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import closed_loop  # noqa: E402
import slo  # noqa: E402


def record(measured, met, tokens=10):
    return {"tpot_ms": 20, "measured_tpot_ms": measured, "measured_ttft_ms": 2 * measured, "met": met, "tokens": tokens,
            "text": "an answer"}


class Figures(unittest.TestCase):
    def test_attainment_and_goodput_count_what_met_its_target(self):
        found = [record(10, True), record(30, False), record(20, True, tokens=30), record(60, False)]
        figures = slo.figures_of(found, elapsed=2, tiers=[0, 0, 2, 0])
        self.assertEqual(figures["attainment"], 0.5)
        self.assertEqual(figures["by_tier"], [1 / 3, None, 1.0])
        self.assertEqual(figures["goodput_tokens_per_s"], 20)
        self.assertEqual(figures["tokens_per_s"], 30)
        self.assertEqual(figures["violation"], {"p50": 1.5, "p99": 3.0})
        self.assertEqual(figures["ttft_ms"]["p50"], 60)

    def test_a_refused_request_has_not_met_its_target_and_has_no_times(self):
        refused = {"met": False, "tokens": 0, "text": None}
        figures = slo.figures_of([record(10, True), refused, record(30, False), refused], elapsed=2, tiers=[0, 0, 1, 1])
        self.assertEqual(figures["attainment"], 0.25)
        self.assertEqual(figures["refused"], 0.5)
        self.assertEqual(figures["attainment_of_served"], 0.5)
        self.assertEqual(figures["tokens_per_s"], 10)
        self.assertEqual(figures["violation"]["p99"], 1.5)

    def test_one_lucky_request_does_not_set_the_baseline(self):
        # Bug: the least time of 64 requests set every target.
        tpots = [12 + i % 8 for i in range(63)]
        self.assertEqual(slo.baseline_tpot(tpots + [3]), slo.baseline_tpot(tpots))
        self.assertEqual(slo.baseline_tpot(tpots), 12)

    def test_requests_come_again_where_prompts_are_too_few(self):
        # Bug: with --learn-first too few prompts were left, and the benchmark ended after it had learned from the others.
        def size(n_prompts, n_requests):
            return slo.pool_size({topic: [("label", "prompt")] * n_prompts for topic in ("sql", "math", "code", "lang")}, n_requests)
        self.assertEqual([size(200, 101), size(200, 4000), size(58, 4000)], [26, 150, 58])

    def test_arrivals_are_those_of_a_seed(self):
        times = slo.arrivals(rate=5, duration=200, seed=3)
        self.assertEqual(times, slo.arrivals(rate=5, duration=200, seed=3))
        self.assertNotEqual(times[:5], slo.arrivals(rate=5, duration=200, seed=4)[:5])
        self.assertEqual(times, sorted(times))
        self.assertLess(abs(len(times) - 1000), 120)  # four standard deviations
        self.assertLess(times[-1], 200)

    def test_the_median_of_several_seeds(self):
        runs = [("a", {"attainment": 0.2}), ("b", {"attainment": 1.0}), ("a", {"attainment": 0.6}), ("a", {"attainment": 0.4})]
        self.assertEqual(slo.median(runs, "a", lambda one: one["attainment"]), 0.4)


def simulated(attainment, goodput):
    """Figures of an arm as `slipstream simulate --json` prints them."""
    return {"attainment": attainment, "goodput_tokens_per_s": goodput,
            "attainments": [{"tpot_ms": 9.1, "requests": 3, "attainment": attainment}, {"tpot_ms": 21.9, "requests": 1, "attainment": 1.0}]}


class Predictions(unittest.TestCase):
    def test_a_prediction_is_the_mean_of_its_seeds_beside_what_was_measured(self):
        found = slo.compared({"attainment": 0.75, "goodput_tokens_per_s": 100}, [simulated(0.7, 90), simulated(0.9, 130)])
        self.assertAlmostEqual(found["predicted_attainment"], 0.8)
        self.assertAlmostEqual(found["predicted_less_measured_attainment"], 0.05)
        self.assertAlmostEqual(found["predicted_goodput_tokens_per_s"], 110)
        self.assertAlmostEqual(found["predicted_less_measured_goodput_tokens_per_s"], 10)
        self.assertEqual(found["predicted_requests"], 4)
        self.assertEqual([ms for ms, _ in found["predicted_by_tpot_ms"]], [9.1, 21.9])
        self.assertAlmostEqual(found["predicted_by_tpot_ms"][0][1], 0.8)

    def test_each_arm_is_simulated_from_its_own_ledger_as_its_service_plans(self):
        calls = []
        options = argparse.Namespace(slipstream="slipstream")
        simulate, slo.simulate = slo.simulate, lambda command: calls.append(command) or simulated(0.5, 10)
        try:
            for arm in slo.ARMS:
                found = slo.prediction(options, pathlib.Path("P"), pathlib.Path(arm) / "ledger.db", arm, {"attainment": 0.5, "goodput_tokens_per_s": 10})
                self.assertEqual("predicted_attainment" in found, arm != "refusing")
        finally:
            slo.simulate = simulate
        self.assertEqual(calls[0], "slipstream simulate --profile P --ledger deadlines/ledger.db --arms auto --seed 1 --json --deadlines".split())
        plans = {call[call.index("--ledger") + 1].split("/")[0]: (call[call.index("--arms") + 1], "--deadlines" in call) for call in calls}
        self.assertEqual(plans, {"deadlines": ("auto", True), "ignored": ("auto", False), "adaserve": ("adaserve", True),
                                 "fcfs": ("fcfs", True), "stta": ("stta", True),
                                 "chain1": ("k1", False), "chain3": ("k3", False), "plain": ("none", False)})
        self.assertEqual(len(calls), 8 * slo.SIMULATED_SEEDS)

    def test_a_profile_that_cannot_predict_is_refused_before_anything_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "profile.json"

            def refusal(text, arms):
                if text is not None:
                    file.write_text(text)
                with self.assertRaises(closed_loop.ServiceError) as caught:
                    slo.read_profile(file, arms)
                return str(caught.exception)
            self.assertIn("No such file", refusal(None, ["plain"]))
            self.assertIn("profile.json", refusal("{", ["plain"]))
            self.assertIn("is no profile", refusal("[]", ["plain"]))
            self.assertIn("is no profile", refusal('{"benchmark": "slo"}', ["plain"]))
            without_draft = json.dumps({"slipstream_profile": 1, "target": {}})
            self.assertIn("has no draft", refusal(without_draft, ["plain", "deadlines"]))
            self.assertEqual(slo.read_profile(file, ["plain", "refusing", "fcfs", "stta"]), without_draft)

    def test_a_failed_simulation_says_why(self):
        with self.assertRaises(closed_loop.ServiceError) as caught:
            slo.simulate([sys.executable, "-c", "import sys; sys.exit('no ledger there')"])
        self.assertIn("no ledger there", str(caught.exception))

    def test_a_failed_simulation_loses_no_measurement(self):
        options = argparse.Namespace(slipstream="false")
        found = slo.prediction(options, pathlib.Path("P"), pathlib.Path("ledger.db"), "plain", {"attainment": 0.5})
        self.assertEqual(list(found), ["prediction_failed"])
        self.assertIn("--ledger ledger.db", found["prediction_failed"])

    def test_the_table_has_predictions_beside_measurements(self):
        measured = slo.figures_of([record(10, True), record(30, False)], elapsed=2, tiers=[0, 0])
        predicted = measured | slo.compared(measured, [simulated(0.53, 6)])
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            slo.print_table({"profile": {}, "loads": [{"load": 0.8, "runs": [["deadlines", predicted], ["refusing", measured]]}]},
                            ["deadlines", "refusing"])
        head, deadlines, refusing = shown.getvalue().splitlines()
        self.assertEqual(head.split()[-4:], ["predicted", "diff.", "goodput", "diff."])
        self.assertEqual(deadlines.split()[-4:], ["0.53", "+0.03", "6", "+1"])
        self.assertEqual(refusing.split()[-4:], ["–"] * 4)
        self.assertEqual(len({len(head), len(deadlines), len(refusing)}), 1)


if __name__ == "__main__":
    unittest.main()
