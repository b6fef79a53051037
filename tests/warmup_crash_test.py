#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 during `slipstream warmup`, at every n-th write, fsync and rename it makes (answers, history, optimizer, export, delivery): the same command
then goes on, and the weights it ends with are those of a run that nothing interrupted, bit for bit. One more run is killed again and again."""
import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DRAFT = """
hidden = 16
layers = 1
ffn = 16
heads = 2
kv_heads = 1
"""


class Runs:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        (folder / "draft.toml").write_text(DRAFT)
        rows = [{"prompt": f"What is {i} + {i * i}?"} for i in range(8)]
        (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def warmup(self, name, fail_point=None):
        """Exit status; negative: the signal that ended it."""
        command = [self.options.slipstream, "warmup", "--target", self.options.target, "--data", self.folder / "data.jsonl", "--draft-config",
                   self.folder / "draft.toml", "--out", self.folder / name, "--steps", 5, "--batch", 4, "--max-tokens", 5, "--threads", 1,
                   "--concurrency", 3, "--save-every", 0]
        environment = {"PATH": "/usr/bin:/bin"}
        if fail_point:
            environment["SLIPSTREAM_FAIL_POINT"] = f"{fail_point}:kill"
        done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)
        self.said = done.stdout + done.stderr
        return done.returncode

    def weights(self, name):
        return (self.folder / name / "model.safetensors").read_bytes()

    def finish(self, name, whole):
        """What is wrong with the run `name` after its kill; None when it comes to the same weights."""
        if not (self.folder / name).exists():
            status = self.warmup(name)
            if status != 0:
                return f"does not go on: {status}\n{self.said}"
        return None if self.weights(name) == whole else "other weights than the uninterrupted run"


def killed_at_each(runs, whole, stride):
    faults, kills, hit = [], 0, 1
    while True:
        name = f"killed-{hit}"
        status = runs.warmup(name, f"*:{hit}")
        if status == 0:
            return faults, kills
        if status != -signal.SIGKILL:  # so would every later run
            print(f"run {name} was not killed: {status}", flush=True)
            return faults + [f"run {name} was not killed: {status}\n{runs.said}"], kills
        kills += 1
        fault = runs.finish(name, whole)
        print(f"kill at durable step {hit:>3}  {fault or 'ok'}", flush=True)
        faults += [fault] if fault else []
        hit += stride


def killed_again_and_again(runs, whole):
    kills = 0  # ever later ones: a run must get further than the last for the next to differ
    while kills < 30 and runs.warmup("again", f"*:{5 + 9 * kills}") == -signal.SIGKILL and not (runs.folder / "again").exists():
        kills += 1
    fault = runs.finish("again", whole) or (None if kills >= 2 else f"only {kills} kills")
    print(f"one run killed {kills} times  {fault or 'ok'}", flush=True)
    return [fault] if fault else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slipstream", default=str(ROOT / "build/slipstream"))
    parser.add_argument("--target", default=str(ROOT / "checkpoints/demo/target"))
    parser.add_argument("--stride", type=int, default=1, help="kill at every so many-th durable step")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(options, pathlib.Path(folder))
        if runs.warmup("whole") != 0:
            sys.exit(f"an uninterrupted run fails:\n{runs.said}")
        whole = runs.weights("whole")
        faults, kills = killed_at_each(runs, whole, options.stride)
        faults += killed_again_and_again(runs, whole)
    print(f"{kills} kills, {len(faults)} failed")
    sys.exit(1 if faults or kills < 5 else 0)


if __name__ == "__main__":
    main()
