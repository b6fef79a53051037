#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/policies.py makes of simulations."""

import argparse
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import policies  # noqa: E402


def load_of(arms):
    """A load as `slipstream simulate --json` prints it, whose attainments depend on nothing but the arm's name."""
    return {"rate_per_s": 2.0, "arms": {arm: {"attainment": len(arm) / 20, "goodput_tokens_per_s": 10, "tokens_per_s": 20,
                                              "attainments": [{"attainment": 0.5}, {"attainment": 1.0}],
                                              "ttft_ms": {"p50": 30}} for arm in arms}}


class Policies(unittest.TestCase):
    def setUp(self):
        self.calls = []
        self.simulate, policies.simulate = policies.simulate, self.pretend

    def tearDown(self):
        policies.simulate = self.simulate

    def pretend(self, options, mix, seed, arms, deadlines):
        self.calls.append((tuple(mix), seed, deadlines))
        return [load_of(arms)]

    def test_the_same_arm_has_two_names(self):
        found = policies.figures_of(argparse.Namespace(seeds=2), [60, 40])
        self.assertEqual(set(found[2.0]), {"planned", "ignored", "none"} | set(policies.PLANNED) - {"auto"})
        self.assertEqual({len(runs) for runs in found[2.0].values()}, {2})
        self.assertEqual(found[2.0]["adaserve"][0]["by_target"], [0.5, 1.0])
        self.assertEqual(self.calls, [((60, 40), 1, True), ((60, 40), 1, False), ((60, 40), 2, True), ((60, 40), 2, False)])

    def test_means_are_over_seeds(self):
        self.assertEqual(policies.mean([{"x": 1}, {"x": 2}], "x"), 1.5)


if __name__ == "__main__":
    unittest.main()
