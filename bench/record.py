#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run a benchmark and save its JSON in bench/results/, with the commit and machine (see the README there).

    python3 bench/record.py NAME.json -- build/bench/decode --model T1B --threads 2 --json

A GPU host has no git history and cannot name the device, so tools/device.sh passes both.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUIET_LOAD = 0.5  # runnable threads on average over the last minute


def git(*arguments):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True).stdout.strip()


def device():
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.*)$", cpuinfo, re.M)
    flags = set((re.search(r"^flags\s*:\s*(.*)$", cpuinfo, re.M) or re.match("()", "")).group(1).split())
    widest = next((name for flag, name in [("amx_bf16", "AMX"), ("avx512_bf16", "AVX-512 bf16"), ("avx512f", "AVX-512"),
                                           ("avx2", "AVX2")] if flag in flags), "no AVX2")
    return f"{model.group(1) if model else os.uname().machine}, {os.cpu_count()} cores, {widest}"


def program_commit(command):
    """The commit that the measured program was built from, as it says itself; None where it cannot be asked."""
    program = ROOT / "build/slipstream"
    if "--slipstream" in command[:-1]:
        program = command[command.index("--slipstream") + 1]
    try:
        said = subprocess.run([str(program), "version", "--json"], capture_output=True, text=True, timeout=60).stdout
        return json.loads(said)["commit"]
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired):
        return None


def portable(argument):
    """Folders of one machine mean nothing on another."""
    return pathlib.Path(argument).name if argument.startswith("/") else argument


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="file in bench/results/")
    parser.add_argument("command", nargs="+", help="after --: a command that prints JSON")
    parser.add_argument("--into", type=pathlib.Path, default=ROOT / "bench/results", help="output folder [bench/results]")
    parser.add_argument("--device", help="name of the device, if it is not the processor")
    parser.add_argument("--commit", help="commit of the build, if git does not know it")
    arguments = parser.parse_args()
    if not arguments.commit and git("status", "--porcelain", "--untracked-files=no"):
        sys.exit("record: the working tree has changes that no commit names; commit first")
    path = arguments.into / arguments.name
    if not path.parent.is_dir():
        sys.exit(f"record: there is no folder {path.parent}; nothing was run")
    run = {"date": datetime.date.today().isoformat(), "device": arguments.device or device(),
           "commit": arguments.commit or git("rev-parse", "--short", "HEAD"),
           "command": " ".join(map(portable, arguments.command)), "quiet": os.getloadavg()[0] < QUIET_LOAD}
    if commit := program_commit(arguments.command):
        run["program_commit"] = commit
    done = subprocess.run(arguments.command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"record: the benchmark ended with status {done.returncode}; nothing is kept")
    try:
        result = {"run": run, **json.loads(done.stdout)}
    except (ValueError, TypeError):
        sys.exit(f"record: the benchmark printed no JSON object; did it get --json? It printed:\n{done.stdout}")
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(path)


if __name__ == "__main__":
    main()
