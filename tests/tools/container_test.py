#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program as a container runs it: the first process of its own process namespace, with nothing of systemd in sight and
nowhere to put shared memory. Needs user namespaces; where the kernel or a container's policy forbids them, it is skipped."""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "checkpoints/demo"
SECONDS = 60
OPTIONS = None

NAMESPACES = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--ipc", "--fork", "--kill-child=KILL", "--mount-proc"]
# Read-only and empty: neither /run/systemd nor /dev/shm is of use.
BARE = 'for folder in /run /dev/shm; do [ ! -d "$folder" ] || mount -t tmpfs -o ro,size=4k none "$folder" || exit 125; done; exec "$@"'


def why_not():
    """What speaks against namespaces here, or nothing."""
    try:
        done = subprocess.run([*NAMESPACES, "sh", "-c", BARE, "sh", "true"], capture_output=True, text=True, timeout=SECONDS)
    except OSError as error:
        return str(error)
    return "" if done.returncode == 0 else f"no namespaces for this user: {done.stderr.strip() or done.returncode}"


class Container:
    """A command as process 1, its output in a file."""

    def __init__(self, folder, *command):
        self.log_file = pathlib.Path(folder) / "log"
        with open(self.log_file, "wb") as log:
            self.outer = subprocess.Popen([*NAMESPACES, "sh", "-c", BARE, "sh", *map(str, command)], stdout=log,
                                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]})
        self.first = self.wait_for(self.child_of_unshare, "the namespace's first process")
        # The shell has handlers for nothing either: what stands there by now must be the command.
        name = pathlib.Path(command[0]).name[:15]
        self.wait_for(lambda: self.name_of_first() == name, f"{name} to be started")

    def child_of_unshare(self):
        children = pathlib.Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def name_of_first(self):
        try:
            return pathlib.Path(f"/proc/{self.first}/comm").read_text().strip()
        except OSError:
            return None  # it has ended

    def wait_for(self, found, what):
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            if answer := found():
                return answer
            if self.outer.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"waited in vain for {what}:\n{self.log()}")

    def log(self):
        return self.log_file.read_text()

    def wait_for_text(self, pattern):
        return self.wait_for(lambda: re.search(pattern, self.log()), pattern)

    def hears(self, number):
        status = pathlib.Path(f"/proc/{self.first}/status").read_text()
        return int(re.search(r"^SigCgt:\s*(\w+)", status, re.M)[1], 16) >> (number - 1) & 1

    def signal(self, number):
        os.kill(self.first, number)

    def ended(self, seconds=SECONDS):
        """The exit status as process 1 gave it; None where it goes on."""
        try:
            return self.outer.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def close(self):
        if self.outer.poll() is None:
            os.kill(self.first, signal.SIGKILL)
            self.outer.wait(SECONDS)


class ContainerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="slip-container-")
        self.addCleanup(self.folder.cleanup)

    def start(self, *command):
        container = Container(self.folder.name, *command)
        self.addCleanup(container.close)
        return container

    def serve(self):
        container = self.start(OPTIONS.slipstream, "serve", "--target", DEMO / "target", "--draft", DEMO / "draft", "--port", "0",
                               "--data-dir", pathlib.Path(self.folder.name) / "data")
        return container, container.wait_for_text(r"listening on (http://\S+)")[1]

    def test_it_serves_reloads_and_ends_in_order_as_process_1(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number.name):
                container, url = self.serve()
                with urllib.request.urlopen(url + "/readyz", timeout=SECONDS) as reply:
                    self.assertEqual(reply.status, 200)
                container.signal(signal.SIGHUP)
                container.wait_for_text("reloaded; changed: ")
                container.signal(number)
                self.assertEqual(container.ended(), 0, container.log())
                self.assertRegex(container.log(), r"stopped\s*$")

    def test_a_command_without_signals_of_its_own_ends_at_them_as_process_1(self):
        prompts = pathlib.Path(self.folder.name) / "prompts.jsonl"
        prompts.write_text('{"prompt": "Tell a long story."}\n' * 5000)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number.name):
                container = self.start(OPTIONS.slipstream, "generate", "--target", DEMO / "target", "--prompts", prompts,
                                       "--max-tokens", "900")
                container.wait_for(lambda: container.hears(number), f"a handler of {number.name}")
                container.signal(number)
                self.assertEqual(container.ended(), 128 + number, container.log()[:1000])

    def test_negative_process_1_without_handlers_does_not_hear(self):
        container = self.start("sleep", "600")
        container.signal(signal.SIGTERM)
        self.assertIsNone(container.ended(seconds=1))


class ImageTest(unittest.TestCase):
    def test_the_images_libraries_lie_on_no_link(self):
        # Bug: ldd names /lib/x86_64-linux-gnu, which made a folder /lib to copy onto the image's link /lib: BuildKit refuses that.
        line = re.search(r"^RUN (ldd (?:.*\\\n)*.*)$", (ROOT / "Dockerfile").read_text(), re.M)[1]
        with tempfile.TemporaryDirectory(prefix="slip-image-") as folder:
            line = line.replace("/opt/libraries", folder).replace("/opt/slipstream/bin/slipstream", OPTIONS.slipstream)
            done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=SECONDS)
            self.assertEqual(done.returncode, 0, done.stderr)
            there = [path.relative_to(folder) for path in pathlib.Path(folder).rglob("*")]
            copied = {path.name for path in there if (folder / path).is_file()}
            links = [f"/{path}" for path in there if (folder / path).is_dir() and pathlib.Path("/", path).is_symlink()]
        loaded = subprocess.run(["ldd", OPTIONS.slipstream], capture_output=True, text=True, timeout=SECONDS).stdout
        self.assertEqual(copied, {pathlib.Path(path).name for path in re.findall(r"=> (/\S+)", loaded)})
        self.assertIn("libsqlite3.so.0", copied)
        self.assertEqual(links, [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--slipstream", default=str(ROOT / "build/slipstream"))
    OPTIONS, rest = parser.parse_known_args()
    if reason := why_not():
        ContainerTest = unittest.skip(reason)(ContainerTest)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
