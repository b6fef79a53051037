#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/service.py computes from runs, and which arguments it refuses."""

import pathlib
import subprocess
import sys
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import service  # noqa: E402


def run(different, **speeds):
    arms = {name: {"tokens_per_s": dict.fromkeys(service.SPEEDS, speed)} for name, speed in speeds.items()}
    return {"arms": arms, "different": different, "gains": {}}


class Medians(unittest.TestCase):
    def test_learning_is_compared_with_arms_that_keep_no_answers(self):
        found = service.medians([run(0, learning=120, untrained=200, static=100, plain=50)])
        self.assertEqual(found["learning_to_best_other"]["whole"], 1.2)
        self.assertEqual(service.medians([run(0, learning=120, untrained=200)])["learning_to_best_other"], {})

    def test_an_arm_with_an_option_is_of_its_kind(self):
        # Bug: learned:k=5 was taken for an arm that does not learn, since its whole name was looked up.
        speeds = {"learning": 120, "static:k=5": 100, "learned:k=5": 200}
        self.assertEqual(service.medians([run(0, **speeds)])["learning_to_best_other"]["whole"], 1.2)

    def test_sampled_answers_are_not_said_to_be_equal(self):
        # Bug: nothing compared them, and the result had 0 different answers.
        self.assertIsNone(service.medians([run(None, learning=2, static=1)] * 2)["different"])
        self.assertEqual(service.medians([run(1, learning=2, static=1), run(2, learning=2, static=1)])["different"], 3)


class Arguments(unittest.TestCase):
    def refuses(self, message, *arguments):
        refused = subprocess.run([sys.executable, BENCH / "service.py", "--target", "T", "--prompts-root", "P", *arguments],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn(message, refused.stderr)

    def test_a_temperature_with_an_arm_that_is_greedy_is_refused(self):
        # Bug: the greedy speed of llama.cpp stood beside those of sampled answers.
        self.refuses("the arm llama decodes greedily", "--arms", "learning,llama", "--temperature", "0.8")

    def test_learned_drafts_need_requests_to_learn_from(self):
        self.refuses("the arm learned and --learn-first need each other", "--arms", "learned,static")
        self.refuses("the arm learned and --learn-first need each other", "--arms", "static", "--learn-first", "10")


if __name__ == "__main__":
    unittest.main()
