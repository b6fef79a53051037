#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs into a temporary prefix and uses what lies there as its reader would: the program, the configuration, the unit, the completions."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

OPTIONS = None


def run(*command, **more):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, **more)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = pathlib.Path(cls.folder.name) / "prefix"
        done = run(OPTIONS.cmake, "--install", OPTIONS.build, "--prefix", cls.prefix)
        assert done.returncode == 0, done.stdout + done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def program(self, *arguments, **more):
        return run(self.prefix / "bin/slipstream", *arguments, **more)

    def test_the_program_finds_its_libraries_and_says_what_it_is(self):
        done = self.program("version", "--json", env={"PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(json.loads(done.stdout)["version"], r"^\d+\.\d+\.\d+$")

    def test_the_installed_configuration_would_start(self):
        share = self.prefix / "share/slipstream"
        done = self.program("serve", "-c", self.prefix / "etc/slipstream/slipstream.toml", "--data-dir", pathlib.Path(self.folder.name) / "data",
                            "--check-config", cwd=share)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_edited_configuration_survives_the_next_install(self):
        config = self.prefix / "etc/slipstream/slipstream.toml"
        config.write_text(config.read_text().replace("port = 8000", "port = 8123"))
        self.assertEqual(run(OPTIONS.cmake, "--install", OPTIONS.build, "--prefix", self.prefix).returncode, 0)
        self.assertIn("port = 8123", config.read_text())

    def test_the_unit_names_what_is_there(self):
        unit = (self.prefix / "lib/systemd/system/slipstream.service").read_text()
        self.assertNotIn("@", re.sub(r"#.*", "", unit))
        commands = re.findall(r"^Exec(?:Start|StartPre)=(.*)$", unit, re.M)
        self.assertEqual(len(commands), 2)
        for command in commands:
            words = command.split()
            self.assertTrue(pathlib.Path(words[0]).is_file(), words[0])
            self.assertTrue(pathlib.Path(words[words.index("-c") + 1]).is_file())
            arguments = [word.replace("%S", self.folder.name) for word in words[1:] if word != "--check-config"]
            cwd = re.search(r"^WorkingDirectory=(.*)$", unit, re.M)[1]
            done = self.program(*arguments, "--check-config", cwd=cwd)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_faulty_configuration_ends_the_restarts(self):
        # Bug: such a unit was restarted every two seconds without end, since RestartPreventExitStatus is for the main process alone.
        unit = (self.prefix / "lib/systemd/system/slipstream.service").read_text()
        settings = dict(re.findall(r"^(\w+)=(.*)$", unit, re.M))
        if "ExecStartPre" not in settings or "Restart" not in settings:
            return
        section = unit[unit.index("[Unit]"):unit.index("[Service]")]
        self.assertIn("\nStartLimitIntervalSec=", section)
        self.assertIn("\nStartLimitBurst=", section)
        most_seconds_of_a_check = 10
        self.assertGreater(int(settings["StartLimitIntervalSec"]),
                           int(settings["StartLimitBurst"]) * (int(settings["RestartSec"]) + most_seconds_of_a_check))

    def test_the_documents_that_the_readme_links_to_are_beside_it(self):
        folder = self.prefix / "share/doc/slipstream"
        linked = re.findall(r"\]\((docs/[^)#]+)", (folder / "README.md").read_text())
        self.assertGreaterEqual(len(set(linked)), 6)
        for name in linked:
            self.assertTrue((folder / name).is_file(), name)

    def test_completions_are_scripts(self):
        bash = self.prefix / "share/bash-completion/completions/slipstream"
        self.assertEqual(run("bash", "-n", bash).returncode, 0)
        self.assertIn("complete ", bash.read_text())
        self.assertTrue((self.prefix / "share/zsh/site-functions/_slipstream").read_text().startswith("#compdef slipstream"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(pathlib.Path(__file__).resolve().parents[2] / "build"))
    parser.add_argument("--cmake", default="cmake")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
