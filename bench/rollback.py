#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how long a bad draft version serves if it is live from the start, under closed-loop clients.

    make demo
    python3 bench/rollback.py --target build/demo/target-160m --learned build/demo/learning --topic sql --other code \\
        --prompts-root DIR --clients 4 --seeds 20

--learned is the data directory of a service that has learned; it is copied. In each copy the live version of --topic gets a
bad successor: `shuffled` weights, `other`: the live version of --other, or `stale`: the base draft. DIR has TOPIC.jsonl with
`prompt` and `topic` in each row. Prints the target's passes until the service took the bad version back, and the steps that
single requests took with it: a pass is a step of every running request. Exit status 1: one stayed for more than --most passes."""
import argparse
import hashlib
import json
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time

import closed_loop
from service import read_topic, shuffled

FAULTS = ["shuffled", "other", "stale"]
WAIT_S = 300
MAX_TOKENS = 96


def live_version(data, draft):
    folder = data / "drafts" / draft
    return folder / (folder / "CURRENT").read_text().strip()


def plant(data, fault, topic, other, seed):
    """Makes a bad successor of the topic's live version live; its number."""
    live = live_version(data, topic)
    source = {"shuffled": live, "other": live_version(data, other), "stale": live_version(data, "base")}[fault]
    weights = (source / "model.safetensors").read_bytes()
    if fault == "shuffled":
        weights = shuffled(weights, seed)
    meta = json.loads((live / "meta.json").read_text())
    bad = live.parent / f"v{meta['version'] + 1:06d}"
    shutil.copytree(live, bad)
    (bad / "model.safetensors").write_bytes(weights)
    meta |= {"version": meta["version"] + 1, "parent": meta["version"], "parent_draft": topic,
             "weights_sha256": hashlib.sha256(weights).hexdigest()}
    (bad / "meta.json").write_text(json.dumps(meta))
    (live.parent / "CURRENT").write_text(bad.name + "\n")
    return meta["version"]


class Learned(closed_loop.Service):
    """A service on a data directory that is there already."""

    def __init__(self, program, folder, data, arguments):
        self.given = data
        super().__init__(program, "rollback", folder, arguments)

    def _write_config(self, learning):
        shutil.copytree(self.given, self.data, dirs_exist_ok=True)
        super()._write_config(learning)


def steps_served(options, fault, seed):
    """(target passes, requests' steps, seconds) that the bad version served; None when it was never taken back."""
    rows = read_topic(options.prompts_root, options.topic)
    random.Random(seed).shuffle(rows)
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "learned"
        shutil.copytree(options.learned, data)
        bad = plant(data, fault, options.topic, options.other, seed)
        service = Learned(options.slipstream, pathlib.Path(folder), data, ["--target", options.target, "--draft", options.draft])
        return count_steps(service, rows, bad, options)


def count_steps(service, rows, bad, options):
    live = service.live_version(options.topic)
    if live != bad:  # it would count as taken back at once
        raise closed_loop.ServiceError(f"v{bad} of {options.topic} was planted, but v{live} serves")
    began, lock, served, stop, failures = time.monotonic(), threading.Lock(), [], threading.Event(), []
    gone_at, passes = [], 0

    def client(number):
        index = number
        try:
            while not stop.is_set():
                label, prompt = rows[index % len(rows)]
                reply = service.chat(closed_loop.Request(options.topic, label, prompt, max_tokens=MAX_TOKENS))
                counts = reply["metrics"]["speculative_decoding"]
                with lock:
                    if (counts.get("draft_version") or 0) == bad:
                        served.append(counts["num_spec_steps"])
                index += options.clients
        except (OSError, closed_loop.ServiceError) as error:
            failures.append(error)
            stop.set()

    clients = [threading.Thread(target=client, args=(i,)) for i in range(options.clients)]
    for thread in clients:
        thread.start()
    line = f'draft="{options.topic}",topic="{options.topic}"}}'
    while not stop.is_set() and not gone_at and time.monotonic() - began < WAIT_S:
        time.sleep(0.1)
        metrics = service.metrics().splitlines()
        passes = max(float(text.rsplit(" ", 1)[1]) for text in metrics if text.startswith("slipstream:engine_steps_total"))
        live = [text for text in metrics if "learning_live_version" in text and line in text]
        if live and float(live[0].rsplit(" ", 1)[1]) != bad:
            gone_at.append(time.monotonic() - began)
    stop.set()
    for thread in clients:
        thread.join()
    service.stop()
    if failures:
        raise failures[0]
    return (round(passes), sum(served), gone_at[0]) if gone_at else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft", default=str(closed_loop.ROOT / "checkpoints/demo/draft"))
    parser.add_argument("--learned", required=True, type=pathlib.Path)
    parser.add_argument("--topic", default="sql")
    parser.add_argument("--other", default="code")
    parser.add_argument("--prompts-root", required=True, type=pathlib.Path)
    parser.add_argument("--slipstream", default=str(closed_loop.ROOT / "build/slipstream"))
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--faults", type=lambda text: text.split(","), default=FAULTS, help="of " + ", ".join(FAULTS))
    parser.add_argument("--most", type=int, default=200, help="target passes that a bad version may serve")
    options = parser.parse_args()
    too_long = 0
    for fault in options.faults:
        results = []
        for seed in range(1, options.seeds + 1):
            results.append(steps_served(options, fault, seed))
            print(f"{fault} {seed}: {results[-1]}", file=sys.stderr, flush=True)
        passes, steps, seconds = zip(*[result for result in results if result] or [(0, 0, 0)])
        long = sum(1 for result in results if not result or result[0] > options.most)
        too_long += long
        print(f"{fault:<9} {options.seeds} seeds: gone in all but {results.count(None)}, after "
              f"{statistics.median(passes):.0f} passes (median), {max(passes)} (most), {statistics.median(steps):.0f} steps of "
              f"requests (median), {max(steps)} (most), {max(seconds):.1f} s (most); "
              f"{long} over {options.most}")
    if too_long:
        sys.exit("rollback: a bad version served for too long")


if __name__ == "__main__":
    closed_loop.run("rollback", main)
