#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checks themselves: what .ci/run, tools/lint.sh, tests/exactness.py and the crash tests must not let pass. `make`,
the linters and the program are stand-ins."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import crash_test  # noqa: E402
import exactness  # noqa: E402
import warmup_crash_test  # noqa: E402

# `make demo` takes the next line of outcomes: its exit status, and the failures that its summary names.
MAKE = '''echo "make $*" >> "$STATE/calls"
[ "$1" = demo ] || exit 0
read -r status failures < "$STATE/outcomes"
sed -i 1d "$STATE/outcomes"
mkdir -p build/demo
rm -f build/demo/summary.json
[ -z "$failures" ] || echo "{\\"failures\\": $failures}" > build/demo/summary.json
exit "$status"'''


class StandIns(unittest.TestCase):
    """A folder of the project's scripts, and a PATH that begins with stand-ins."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slip checks "))  # a path with spaces
        self.addCleanup(shutil.rmtree, self.folder)
        self.project, self.state, self.path = self.folder / "project", self.folder / "state", self.folder / "bin"
        for folder in (self.project, self.state, self.path):
            folder.mkdir()

    def stand_in(self, name, body):
        (self.path / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.path / name).chmod(0o755)

    def run_script(self, *command, **more):
        environment = {"PATH": f"{self.path}:{os.environ['PATH']}", "STATE": str(self.state), "HOME": str(self.folder)}
        return subprocess.run(["bash", *command], cwd=self.project, env=environment | more, capture_output=True, text=True,
                              timeout=60)


class RunTest(StandIns):
    def run_ci(self, *outcomes):
        """`outcomes`: (exit status, failures or None) of each run of the demo."""
        (self.project / ".ci").mkdir(exist_ok=True)
        shutil.copy(ROOT / ".ci/run", self.project / ".ci/run")
        self.stand_in("make", MAKE)
        lines = [f"{status} {'' if failures is None else json.dumps(failures)}\n" for status, failures in outcomes]
        (self.state / "outcomes").write_text("".join(lines))
        done = self.run_script(".ci/run")
        return done, (self.state / "calls").read_text().split("\n")

    def test_a_demo_that_keeps_its_promises_passes(self):
        done, calls = self.run_ci((0, []))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(calls, ["make lint", "make test", "make asan-io", "make demo", "make tsan-learner", ""])

    def test_a_demo_that_is_only_slower_runs_once_more_and_is_told(self):
        done, calls = self.run_ci((1, ["speed"]), (1, ["speed"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(calls.count("make demo"), 2)
        self.assertIn("slower in both runs", done.stdout)

    def test_negative_different_answers_and_drafts_that_do_not_learn_fail(self):
        # Bug: the failing check stood in a group after `||`, where bash ignores it, so the run went on and passed.
        slower = (1, ["speed"])
        for outcomes in ([(1, ["answers"])], [(1, ["learning sql", "speed"])], [(1, None)], [slower, (1, ["answers"])]):
            with self.subTest(outcomes):
                done, calls = self.run_ci(*outcomes)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(calls[-2], "make demo")
                (self.state / "calls").unlink()


# Reports what it is asked to look at if a line of $STATE/faults stands in it.
LINTER = '''for word; do [ -f "$word" ] && grep -qf "$STATE/faults" "$word" && { echo "$word: fault"; exit 1; }; done
exit 0'''


class LintTest(StandIns):
    def setUp(self):
        super().setUp()
        for folder in ("tools", "tests"):
            (self.project / folder).mkdir()
        for name in ("lint.sh", "lint_names_test.sh", "jobs.sh"):
            shutil.copy(ROOT / "tools" / name, self.project / "tools")
        (self.project / "tools/configure.sh").write_text("")
        for name in ("include_directions.py", "documents.py", "mirror.py"):
            (self.project / "tests" / name).write_text("")
        shutil.copy(ROOT / ".clang-tidy", self.project)
        for name in ("clang-format-14", "clang-tidy-14"):
            self.stand_in(name, LINTER)
        (self.state / "faults").write_text("bad\n")
        self.git("init", "-q")

    def git(self, *command):
        """Without this process's environment: in a git hook it names the repository that the hook runs for."""
        identity = {f"GIT_{role}_{key}": "x" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1"} | identity
        subprocess.run(["git", *command], cwd=self.project, env=environment, check=True, capture_output=True)

    def commit(self, text):
        (self.project / "one.cpp").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-qm", "x")

    def test_a_git_hook_that_runs_this_test_keeps_its_repository(self):
        # Bug: git took the hook's GIT_DIR and GIT_INDEX_FILE, so these commits went to the hook's repository.
        outer = self.folder / "outer"
        outer.mkdir()
        with mock.patch.dict(os.environ, GIT_DIR=str(outer / ".git"), GIT_INDEX_FILE=str(outer / "index")):
            self.commit("int good;\n")
        self.assertEqual(list(outer.iterdir()), [])
        self.assertEqual(self.run_script("tools/lint.sh").returncode, 0, "the commit is in the test's own repository")

    def test_what_changed_since_the_base_is_looked_at(self):
        self.commit("int bad_but_old;\n")
        self.assertNotEqual(self.run_script("tools/lint.sh").returncode, 0, "a first commit is all new")
        self.commit("int good;\n")
        done = self.run_script("tools/lint.sh")
        self.assertEqual((done.returncode, done.stdout), (0, "lint: 1 file is clean\n"), done.stderr)
        self.commit("int bad;\n")
        self.assertNotEqual(self.run_script("tools/lint.sh").returncode, 0)

    def test_a_failure_of_clang_tidy_itself_fails_and_is_shown(self):
        # Bug: its standard error went nowhere, so a file whose compile command it could not use counted as clean.
        self.stand_in("clang-tidy-14", 'echo "2 warnings generated." >&2\ncase "$*" in *"-p build"*) cat "$STATE/says" >&2;; esac\n'
                      + LINTER)
        (self.state / "says").write_text("")
        self.commit("int older;\n")
        self.commit("int good;\n")
        done = self.run_script("tools/lint.sh")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        (self.state / "says").write_text("error: unable to handle compilation\n")
        done = self.run_script("tools/lint.sh")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "lint: clang-tidy says:\nerror: unable to handle compilation\n")
        self.assertNotIn("are clean", done.stdout)

    def test_without_a_parent_only_the_cheap_linters_look_at_all_files(self):
        # Bug: in a clone of depth 1 clang-tidy looked at every source, which takes longer than .ci/run has.
        self.stand_in("clang-format-14", 'for word; do [ ! -f "$word" ] || echo "$word" >> "$STATE/formatted"; done')
        self.commit("int bad;\n")
        done = self.run_script("tools/lint.sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("clang-tidy is left out; LINT_ALL=1 runs it", done.stdout)
        self.assertEqual((self.state / "formatted").read_text(), "one.cpp\n")
        self.assertNotEqual(self.run_script("tools/lint.sh", LINT_ALL="1").returncode, 0)

    def test_negative_a_base_that_is_no_commit_and_a_folder_without_git_are_refused(self):
        # Bug: the failure of `git diff` was not seen, so no file had changed and all was clean.
        self.commit("int bad;\n")
        done = self.run_script("tools/lint.sh", LINT_BASE="no-such-branch")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("LINT_BASE=no-such-branch is no commit", done.stderr)
        shutil.rmtree(self.project / ".git")
        for more in ({}, {"LINT_ALL": "1"}):
            done = self.run_script("tools/lint.sh", GIT_CEILING_DIRECTORIES=str(self.folder), **more)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("not a git repository", done.stderr)

    def test_another_users_checkout_is_looked_at(self):
        # Bug: git refused it, lint ended with status 2, and .ci/run ended before `make test`.
        self.commit("int good;\n")
        self.commit("int good, better;\n")
        foreign = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1", "GIT_CONFIG_NOSYSTEM": "1"}
        self.assertIn("dubious ownership", self.run_script("-c", "git rev-parse HEAD", **foreign).stderr)
        for more in ({}, {"LINT_ALL": "1"}, {"LINT_BASE": "HEAD~1"}):
            done = self.run_script("tools/lint.sh", **foreign, **more)
            self.assertEqual((done.returncode, done.stdout), (0, "lint: 1 file is clean\n"), done.stderr)

    def test_missing_linters_are_installed_by_the_set_up(self):
        # Bug: lint installed them by itself, only as root: it tried neither sudo nor .deps/.
        for name in ("clang-format-14", "clang-tidy-14"):
            (self.path / name).unlink()
        for name in ("bash", "dirname", "grep", "git", "mkdir", "mktemp", "cp", "rm"):
            (self.path / name).symlink_to(shutil.which(name))
        self.stand_in("python3", "")
        (self.project / "tools/setup.sh").write_text('echo "setup $*" >> "$STATE/calls"\n')
        self.commit("int good;\n")
        done = self.run_script("tools/lint.sh", PATH=str(self.path))
        self.assertEqual((done.returncode, done.stderr), (2, "lint: install clang-format-14 and clang-tidy-14 first\n"))
        self.assertEqual((self.state / "calls").read_text(), "setup clang-format-14 clang-tidy-14\n")
        programs = self.project / ".deps/programs"
        programs.mkdir(parents=True)
        for name in ("clang-format-14", "clang-tidy-14"):
            self.stand_in(name, LINTER)
            (self.path / name).rename(programs / name)
        done = self.run_script("tools/lint.sh", PATH=str(self.path))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_negative_a_linter_that_rejects_every_name_does_not_count(self):
        (self.state / "faults").write_text("int\n")
        done = self.run_script("tools/lint_names_test.sh")
        self.assertEqual(done.returncode, 1)
        self.assertIn("rejects good names too", done.stderr)


class MakeInstallTest(StandIns):
    def setUp(self):
        super().setUp()
        shutil.copy(ROOT / "Makefile", self.project)
        (self.project / "tools").mkdir()
        (self.project / "tools/jobs.sh").write_text("echo 1\n")
        (self.project / "build").mkdir()

    def commands(self):
        """What `make install` would run."""
        done = self.run_script("-c", "make -n install")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cmake --install build", done.stdout)
        return done.stdout

    def test_ones_own_build_is_brought_up_to_date(self):
        self.assertIn("tools/build.sh", self.commands())
        (self.project / "build/slipstream").touch()
        self.assertIn("tools/build.sh", self.commands())

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to give the program to another user")
    def test_another_users_build_is_installed_as_it_is(self):
        # Bug: `sudo make install` set up and built as root, in the user's folder.
        (self.project / "build/slipstream").touch()
        os.chown(self.project / "build/slipstream", 12345, 12345)
        self.assertNotIn("tools/build.sh", self.commands())
        self.assertNotIn("tools/setup.sh", self.commands())

    def test_help_lists_it(self):
        self.assertRegex(self.run_script("-c", "make help").stdout, r"(?m)^make install +Install under PREFIX")


class ExactnessTest(unittest.TestCase):
    def test_negative_a_run_that_proposed_nothing_compares_nothing(self):
        # Bug: equal answers were enough, so a program that never speculates passed.
        none, some = {"accepted": 0, "first_rejections": 0}, {"accepted": 0, "first_rejections": 2}
        self.assertTrue(exactness.proposed_nothing(["--draft", "d", "--k", "3"], [none, none]))
        self.assertFalse(exactness.proposed_nothing(["--draft", "d", "--k", "3"], [none, some]))
        self.assertFalse(exactness.proposed_nothing(["--k", "0"], [none]), "plain decoding proposes nothing")


    def test_negative_a_quick_run_without_whole_documents_fails(self):
        # Bug: --quick cut every document, and was content with none, so that no answer was checked against the schema.
        with mock.patch.object(sys, "argv", ["exactness.py", "--quick"]):
            options = exactness.parse_arguments()
        self.assertEqual(exactness.max_tokens_of(options, "greedy"), 24)
        self.assertEqual(exactness.max_tokens_of(options, "schema"), exactness.MAX_TOKENS["schema"])
        plain = {"id": 0, "token_ids": [1], "top_logprobs": [], "checksum": "", "text": "[", "stop_reason": "length"}
        control = plain | {"token_ids": [2]}
        with (mock.patch.object(exactness, "generate", side_effect=[([plain], 0.0), ([control], 0.0)]),
              mock.patch.object(exactness, "runs_with_speculation", return_value=[]), contextlib.redirect_stdout(None)):
            self.assertTrue(exactness.compare_mode(options, None, "bfloat16", "schema", []))


class CrashTest(unittest.TestCase):
    def test_the_version_that_served_or_a_newer_one_is_current(self):
        self.assertIsNone(crash_test.fault_of_versions(0, 0, 0, rolled_back=False))
        self.assertIsNone(crash_test.fault_of_versions(4, 3, 4, rolled_back=False))
        self.assertIsNone(crash_test.fault_of_versions(2, 3, 2, rolled_back=True))
        self.assertIn("v3 already answered", crash_test.fault_of_versions(2, 3, 2, rolled_back=False))
        self.assertIn("v1 answered", crash_test.fault_of_versions(2, 2, 1, rolled_back=False))

    def test_negative_a_store_that_lost_every_version_is_noticed(self):
        # Bug: nothing was compared where the store had no current version at all.
        self.assertIn("v3 already answered", crash_test.fault_of_versions(0, 3, 0, rolled_back=False))

    def test_negative_a_replay_that_lost_records_is_noticed(self):
        # Bug: the number of records after the restart was printed, and compared with nothing.
        self.assertIn("0 of its 40", crash_test.fault_of_replay(40, 0))
        self.assertIn("35 of its 40", crash_test.fault_of_replay(40, 35))
        self.assertIsNone(crash_test.fault_of_replay(40, 36))
        self.assertIsNone(crash_test.fault_of_replay(40, 44))
        self.assertIsNone(crash_test.fault_of_replay(0, 0))

    def test_a_process_that_does_not_end_is_killed(self):
        # Bug: the test waited for it without a limit.
        service = crash_test.Service.__new__(crash_test.Service)
        service.process = subprocess.Popen(["sleep", "300"])
        self.assertIsNone(service.ended(timeout_s=0))
        self.assertEqual(service.process.returncode, -signal.SIGKILL)
        service.process = subprocess.Popen(["true"])
        self.assertEqual(service.ended(), 0)

    def test_negative_a_warm_up_that_fails_by_itself_ends_the_test(self):
        # Bug: it was run again and again for ever, since only a run without a kill ended the loop.
        class Runs:
            said = "no space left"

            def warmup(self, name, fail_point):
                return -signal.SIGKILL if name == "killed-1" else 1

            def finish(self, name, whole):
                return None

        faults, kills = warmup_crash_test.killed_at_each(Runs(), b"", stride=1)
        self.assertEqual(kills, 1)
        self.assertIn("no space left", faults[0])


if __name__ == "__main__":
    unittest.main()
