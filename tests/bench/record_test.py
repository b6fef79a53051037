#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/record.py keeps of a run."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Record(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="slip record ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def record(self, *command, name="one.json"):
        own = ["--into", self.folder, "--commit", "abc", "--device", "x", name, "--"]
        return subprocess.run([sys.executable, ROOT / "bench/record.py", *own, *command], capture_output=True, text=True,
                              timeout=60)

    def kept(self):
        file = self.folder / "one.json"
        return json.loads(file.read_text()) if file.exists() else None

    def test_the_result_has_its_run_and_the_programs_own_commit(self):
        # Bug: only the checkout's commit was kept, also where --slipstream named another build.
        program = self.folder / "slipstream"
        program.write_text("#!/bin/sh\n[ \"$*\" = \"version --json\" ] && echo '{\"commit\": \"def\"}'\n")
        program.chmod(0o755)
        done = self.record("echo", '{"speed": 2}', "--slipstream", program)
        self.assertNotEqual(done.returncode, 0, "what echo printed is no JSON")
        done = self.record("sh", "-c", "echo '{\"speed\": 2}'", "--slipstream", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        kept = self.kept()
        self.assertEqual((kept["speed"], kept["run"]["commit"], kept["run"]["program_commit"]), (2, "abc", "def"))
        self.assertNotIn(str(self.folder), kept["run"]["command"])

    def test_a_failure_and_what_is_no_json_are_not_kept(self):
        done = self.record("sh", "-c", "echo '{}'; exit 3")
        self.assertIn("ended with status 3", done.stderr)
        # Bug: a traceback, and what hours of a run without --json had printed was lost.
        done = self.record("echo", "12 tokens/s")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no JSON object; did it get --json? It printed:\n12 tokens/s", done.stderr)
        self.assertIsNone(self.kept())

    def test_a_name_in_a_missing_folder_is_refused_before_the_run(self):
        # Bug: only --into was looked at, so a run of 18 minutes ended with a traceback, and its result was lost.
        ran = self.folder / "ran"
        done = self.record("touch", ran, name="service/one.json")
        self.assertIn(f"there is no folder {self.folder / 'service'}; nothing was run", done.stderr)
        self.assertFalse(ran.exists())


if __name__ == "__main__":
    unittest.main()
