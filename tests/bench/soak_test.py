#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""When bench/soak.py says that a service has failed."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import soak  # noqa: E402

WELL = {"ended": None, "failures": 0, "ratio": 1.15}


class Faults(unittest.TestCase):
    def test_a_service_that_kept_its_memory_and_answered_all_is_well(self):
        self.assertIsNone(soak.fault_of(WELL, 1.15))

    def test_each_fault_is_named(self):
        self.assertIn("1.16", soak.fault_of(WELL | {"ratio": 1.16}, 1.15))
        self.assertIn("3 requests", soak.fault_of(WELL | {"failures": 3}, 1.15))
        self.assertIn("ended", soak.fault_of(WELL | {"ended": -6}, 1.15))

    def test_failures_are_the_outcomes_that_say_so(self):
        counts = soak.Shared()
        counts.count("valid", "200")
        counts.count("invalid", "400")
        self.assertEqual(counts.failures(), 0)
        counts.count("valid", "FAILED 500")
        self.assertEqual(counts.failures(), 1)


if __name__ == "__main__":
    unittest.main()
