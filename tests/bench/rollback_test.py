#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How bench/rollback.py counts what a bad version served, on a service of our own making."""
import argparse
import pathlib
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import closed_loop  # noqa: E402
import rollback  # noqa: E402

OPTIONS = argparse.Namespace(topic="sql", clients=2)
ROWS = [("sql", "one"), ("sql", "two")]


class StandIn:
    """A service that takes `bad` back after some answers."""

    def __init__(self, live, answers_until_rollback=3):
        self.live, self.left, self.lock = live, answers_until_rollback, threading.Lock()

    def live_version(self, topic):
        return self.live

    def chat(self, request):
        time.sleep(0.01)
        with self.lock:
            self.left -= 1
            version = self.live
            if self.left == 0:
                self.live = 4
        return {"metrics": {"speculative_decoding": {"draft_version": version, "num_spec_steps": 7}}}

    def metrics(self):
        return (f'slipstream:learning_live_version{{draft="sql",topic="sql"}} {self.live}\n'
                "slipstream:engine_steps_total 40\n")

    def stop(self):
        pass


class Steps(unittest.TestCase):
    def test_passes_and_steps_of_the_bad_version_are_counted(self):
        passes, steps, seconds = rollback.count_steps(StandIn(live=5), ROWS, 5, OPTIONS)
        self.assertEqual((passes, steps), (40, 21))
        self.assertGreater(seconds, 0)

    def test_negative_a_version_that_never_served_was_not_taken_back(self):
        # Bug: it counted as gone after the first tenth of a second, the best result there is.
        with self.assertRaisesRegex(closed_loop.ServiceError, "v5 of sql was planted, but v4 serves"):
            rollback.count_steps(StandIn(live=4), ROWS, 5, OPTIONS)


if __name__ == "__main__":
    unittest.main()
