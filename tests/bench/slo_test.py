#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/slo.py computes from answers."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
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


if __name__ == "__main__":
    unittest.main()
