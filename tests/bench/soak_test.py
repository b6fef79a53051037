#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""When bench/soak.py says that a service has failed."""
import argparse
import contextlib
import io
import pathlib
import random
import subprocess
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import closed_loop  # noqa: E402
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

    def test_a_stream_that_a_client_leaves_has_begun_well(self):
        # Bug: any answer counted as left, a 500 too.
        for status, outcome in ((200, "left"), (503, "FAILED 503"), (500, "FAILED 500")):
            self.assertEqual(client_with(status).cancelled(random.Random(1)), outcome)

    def test_a_client_that_fails_in_any_way_is_counted(self):
        shared = soak.Shared()
        client = client_with(200, shared)
        client.valid = lambda rng: shared.stop.set() or len(None)
        client.run()
        self.assertEqual(shared.counts, {("valid", "FAILED TypeError"): 1})


def client_with(status, shared=None):
    """A client whose requests are answered with a status."""
    answer = unittest.mock.Mock(status=status, getheader=lambda name: None)
    options = argparse.Namespace(kinds=["valid"], seed=1, pause=0)
    client = soak.Client(None, {"sql": [("sql", "prompt")]}, options, 0, shared or soak.Shared())
    client._post = lambda body: (unittest.mock.Mock(), answer)
    return client


class Samples(unittest.TestCase):
    def test_a_service_that_ended_gives_none(self):
        # Bug: the refused connection ended the soak with a traceback, and what was measured was lost.
        service = unittest.mock.Mock()
        service.metrics.side_effect = ConnectionRefusedError()
        self.assertIsNone(soak.sample(service, began=0))
        service.process.wait.side_effect = subprocess.TimeoutExpired("slipstream", 1)
        with self.assertRaisesRegex(closed_loop.ServiceError, "does not answer /metrics"):
            soak.sample(service, began=0)

    def test_a_reference_without_room_before_the_end_is_refused(self):
        # Bug: the first samples were taken for those of that time.
        command = ["soak.py", "--target", "t", "--prompts-root", "p", "--minutes", "5", "--reference-s"]
        with unittest.mock.patch.object(sys, "argv", command + ["180"]):
            self.assertEqual(soak.parse().reference_s, 180)
        said = io.StringIO()
        with unittest.mock.patch.object(sys, "argv", command + ["181"]), contextlib.redirect_stderr(said):
            with self.assertRaises(SystemExit):
                soak.parse()
        self.assertIn("too late", said.getvalue())


if __name__ == "__main__":
    unittest.main()
