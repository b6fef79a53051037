#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/flood.py computes, and its requests."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import flood  # noqa: E402


class Figures(unittest.TestCase):
    def test_each_round_is_compared_with_the_quiet_one(self):
        times = {"quiet": [float(i) for i in range(1, 101)], "schemas": [2.0 * i for i in range(1, 101)]}
        found = flood.figures_of(times, {"schemas": 7}, {"before_mib": 200, "most_mib": 456, "budget_mib": 256})
        self.assertEqual(found["chats"]["quiet"], {"n": 100, "p50_ms": 51, "p99_ms": 100, "p99_ratio": 1})
        self.assertEqual(found["chats"]["schemas"], {"n": 100, "p50_ms": 102, "p99_ms": 200, "p99_ratio": 2, "n_flood_answers": 7})
        self.assertEqual(found["memory"]["growth_over_budget"], 1)

    def test_every_second_round_has_the_reverse_order(self):
        # Bug: every round had the same order, so a machine that slows down in a round looked like the last flood.
        first, second, third = (flood.parts_of(number) for number in range(3))
        self.assertEqual(first, ["quiet", "tokenize", "quiet", "schemas", "quiet", "both", "quiet", "elsewhere"])
        self.assertEqual(second, first[::-1])
        self.assertEqual(third, first)

    def test_memory_beyond_the_budget_and_a_fifth_is_a_fault(self):
        self.assertIsNone(flood.fault_of({"memory": {"growth_over_budget": 1.2}}))
        self.assertIn("1.21", flood.fault_of({"memory": {"growth_over_budget": 1.21}}))

    def test_every_schema_is_new(self):
        bodies = {flood.request_of("schemas", number, "")[1] for number in range(1, 50)}
        self.assertEqual(len(bodies), 49)
        self.assertEqual(json.loads(next(iter(bodies)))["response_format"]["type"], "json_schema")
        self.assertEqual(flood.request_of("tokenize", 1, "text"), ("/tokenize", "text"))


if __name__ == "__main__":
    unittest.main()
