#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/simulate.py computes from a load and its prediction."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import simulate  # noqa: E402


def figures(e2e_ms, goodput_per_s):
    times = {"mean": e2e_ms, "p50": e2e_ms, "p99": e2e_ms}
    return {"e2e_ms": times, "ttft_ms": times, "itl_ms": times, "tokens_per_s": 100, "goodput_per_s": goodput_per_s}


class Ratios(unittest.TestCase):
    def test_a_ratio_is_predicted_over_measured(self):
        found = simulate.ratios(figures(90, 3), figures(100, 4))
        self.assertAlmostEqual(found["e2e_ms"], 0.9)
        self.assertAlmostEqual(found["goodput_per_s"], 0.75)
        self.assertAlmostEqual(found["tokens_per_s"], 1)

    def test_nothing_measured_has_no_ratio(self):
        found = simulate.ratios(figures(90, 3), figures(100, 0))
        self.assertIsNone(found["goodput_per_s"])
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            simulate.print_table([{"arm": "auto", "load": 0.5, "rate_per_s": 4, "before_to_measured": found, "after_to_measured": found}])
        self.assertIn("– –", shown.getvalue())
        self.assertIn("0.90 0.90", shown.getvalue())


if __name__ == "__main__":
    unittest.main()
