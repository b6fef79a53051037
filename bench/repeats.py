#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure traffic that repeats itself: what prompt lookup, past answers and predictions bring beside a draft alone.

    python3 bench/repeats.py --target T1B --prompts-root DIR --requests 10 --json OUT.json

The same prompts come three times: new; again, so that past answers know them; and with OpenAI's `prediction`, the answer with
some of its words replaced, as when a file is edited. Arms: `draft` proposes by the draft alone, `default` is the service as it
is, but trains nothing, so that the draft stays the same. One client; the arms take turns on quarters of each part; greedy
answers are compared. Exit status 1: some differ. --requests is per topic; DIR as in bench/service.py."""
import argparse
import dataclasses
import pathlib
import random
import sys
import tempfile

import closed_loop
import service

BLOCKS = 4
PARTS = ("new", "again", "predicted")
CONFIGS = {"draft": "[speculation]\nprompt_lookup = false\n[learning]\ngovernor = \"steps_per_request:0\"\n",
           "default": "[learning]\ngovernor = \"steps_per_request:0\"\n"}


def edited(text, draw):
    """The text with every twelfth word or so replaced."""
    return " ".join(word if draw.random() > 1 / 12 else "edited" for word in text.split(" "))


def measure(options, folder, arms):
    """`arms` gets each arm as soon as it runs."""
    draw = random.Random(options.seed)
    prompts = service.read_prompts(options.prompts_root)
    new = [closed_loop.Request(topic, label, prompt) for topic in service.TOPICS
           for label, prompt in draw.sample(prompts[topic], options.requests)]
    draw.shuffle(new)
    requests, n = new + new, len(new)
    for name, config in CONFIGS.items():
        arguments = ["--target", options.target, "--draft", options.draft]
        arms[name] = closed_loop.Arm(name, closed_loop.Service(options.slipstream, name, folder, arguments, config), len(PARTS) * n)
    for part in range(len(PARTS)):
        if part == 2:
            requests += [dataclasses.replace(request, prediction=edited(reply.text, draw))
                         for request, reply in zip(new, arms["draft"].replies[:n], strict=True)]
        for name, first, last in closed_loop.turns(list(arms), n, BLOCKS):
            arms[name].serve(requests, part * n + first, part * n + last, clients=1)
        print(f"{PARTS[part]}: done", file=sys.stderr, flush=True)
    result = {"benchmark": "repeats", "requests": n, "seed": options.seed, "different": len(closed_loop.different_answers(arms.values()))}
    for part, title in enumerate(PARTS):
        result[title] = figures_of({name: arm.replies[part * n:(part + 1) * n] for name, arm in arms.items()})
    return result


def seconds(replies):
    """One client's time for these answers."""
    return sum(r.finished - r.started for r in replies)


def figures_of(replies):
    """Of each arm's replies to one part's requests: speed, accepted length, and how many times as fast `default` is."""
    figures = {name: {"tokens_per_s": sum(r.tokens for r in found) / seconds(found),
                      "accepted_length": closed_loop.accepted_length(found)} for name, found in replies.items()}
    figures["ratio"] = seconds(replies["draft"]) / seconds(replies["default"])
    figures["ratio_by_topic"] = {topic: seconds(closed_loop.of_topic(replies["draft"], topic)) /
                                 seconds(closed_loop.of_topic(replies["default"], topic)) for topic in service.TOPICS}
    return figures


def print_table(result):
    for title in PARTS:
        part = result[title]
        print(f"{title:<10} draft {part['draft']['tokens_per_s']:6.1f} tokens/s (length {part['draft']['accepted_length']:.2f}), default "
              f"{part['default']['tokens_per_s']:6.1f} ({part['default']['accepted_length']:.2f}): {part['ratio']:.2f} ×   "
              + ", ".join(f"{topic} {ratio:.2f}" for topic, ratio in part["ratio_by_topic"].items()))
    print(f"different answers: {result['different']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    service.add_arguments(parser)
    parser.add_argument("--requests", type=int, default=10, help="per topic")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of prompts")
    parser.add_argument("--json", help="write everything into this file; -: print it instead of the table, for bench/record.py")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arms = {}
        try:
            result = measure(options, pathlib.Path(folder), arms)
        finally:  # before the folder is deleted, into which they write
            for arm in arms.values():
                arm.service.stop()
    closed_loop.report(result, options.json, print_table)
    if result["different"]:
        sys.exit(f"repeats: {result['different']} answers differ between the arms")


if __name__ == "__main__":
    closed_loop.run("repeats", main)
