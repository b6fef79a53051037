#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare our forward pass with llama.cpp's, in turns, on the same weights, prompts, shapes and thread count.

By hand only. A Python environment with `llama-cpp-python gguf tokenizers numpy` runs it:

    python bench/peers.py --model checkpoints/demo/target --context 128,960 --threads 2

First writes the folder as GGUF (bfloat16) to --gguf. Both programs then continue one prompt greedily. Tokens are
compared, not bits, because the two round differently. Nothing is timed if they differ within --agree tokens.
bench/decode and llama.cpp take turns, round by round, in this one run.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import llama_cpp
from tokenizers import Tokenizer

from llama_cpp_decoding import Cache, Model
from to_gguf import convert

STEP_BUDGET_SECONDS, MOST_REPEATS = 0.03, 50  # of one kind of step in one round, as in bench/decode
ROOT = pathlib.Path(__file__).resolve().parent.parent


class Ours:
    """bench/decode, waiting for its turns."""

    def __init__(self, arguments, prompt):
        self.process = subprocess.Popen(
            [arguments.decode, "--model", arguments.model, "--rows", arguments.rows, "--context", arguments.context,
             "--layout", "both", "--prefill", str(arguments.prefill), "--chunk", arguments.chunk,
             "--threads", str(arguments.threads), "--rounds", str(arguments.rounds),
             "--prompt-ids", ",".join(map(str, prompt)), "--greedy", str(arguments.greedy), "--turns", "--json"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.greedy = json.loads(self.line("greedy "))

    def line(self, start):
        line = self.process.stdout.readline()
        if not line.startswith(start):
            raise SystemExit(f"bench/decode said {line!r} instead of {start!r}, exit status {self.process.wait()}")
        return line[len(start):]

    def turn(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def result(self):
        result = json.loads(self.process.stdout.read())
        if self.process.wait() != 0:
            raise SystemExit(f"bench/decode failed with status {self.process.returncode}")
        return result


class Theirs:
    def __init__(self, arguments, path):
        self.arguments = arguments
        self.rows = [int(n) for n in arguments.rows.split(",")]
        self.contexts = [int(n) for n in arguments.context.split(",")]
        self.model = Model(path, arguments.threads)
        self.prompt = Cache(self.model, 0, 1, max(arguments.prefill, 1024))
        self.caches = {}
        self.seconds = {}

    def fill(self):
        most = max(self.rows)
        for context in self.contexts:
            self.caches["rows", context] = Cache(self.model, context, 1, most)
            self.caches["sequences", context] = Cache(self.model, context, most, 1)

    def round(self):
        for (layout, context), cache in self.caches.items():
            for n in self.rows:
                self.measure((layout, context, n), lambda: cache.seconds_of_step(layout, n))
        for _ in range(2 if not self.seconds.get("prefill") else 1):  # its first is a warm-up
            seconds = self.prompt.seconds_of_prefill(self.arguments.prefill)
        self.seconds.setdefault("prefill", []).append(seconds)
        time.sleep(0.05)  # its threads may still wait actively

    def measure(self, key, step):
        step()  # what was measured before has emptied the caches
        spent, samples = 0, self.seconds.setdefault(key, [])
        for _ in range(MOST_REPEATS):
            samples.append(step())
            spent += samples[-1]
            if spent >= STEP_BUDGET_SECONDS:
                return


def agreement(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def check(arguments, ours, theirs, prompt):
    other = theirs.prompt.continue_greedily(prompt, arguments.greedy)
    same = agreement(ours.greedy, other)
    print(f"greedy continuation of {len(prompt)} tokens: the first {same} of {arguments.greedy} are the same", file=sys.stderr)
    if same < min(arguments.agree, arguments.greedy):
        raise SystemExit(f"not timed: ours {ours.greedy}\n         theirs {other}")
    return same


def compare(ours, theirs):
    rows = []
    for step in ours["steps"]:
        seconds = theirs.seconds.get((step["layout"], step["context"], step["rows"]))
        if seconds is None:
            continue
        median, best = 1e3 * statistics.median(seconds), 1e3 * min(seconds)
        rows.append({"what": step["layout"], "context": step["context"], "n": step["rows"], "ms": step["ms"],
                     "best_ms": step["best_ms"], "llama_cpp_ms": median, "llama_cpp_best_ms": best,
                     "ratio": step["ms"] / median, "best_ratio": step["best_ms"] / best})
    seconds = theirs.seconds["prefill"]
    median, best = 1e3 * statistics.median(seconds), 1e3 * min(seconds)
    for prefill in ours["prefill"]:
        rows.append({"what": f"prefill, chunks of {prefill['chunk']}", "context": 0, "n": prefill["tokens"],
                     "ms": prefill["ms"], "best_ms": prefill["best_ms"], "llama_cpp_ms": median,
                     "llama_cpp_best_ms": best, "ratio": prefill["ms"] / median,
                     "best_ratio": prefill["best_ms"] / best})
    return rows


def print_table(rows):
    print(f"{'':24} context     n   ours ms  (best)  llama.cpp ms  (best)   ours / llama.cpp  (best)")
    for row in rows:
        print(f"{row['what']:24} {row['context']:7} {row['n']:5} {row['ms']:9.3f} {row['best_ms']:7.3f} "
              f"{row['llama_cpp_ms']:13.3f} {row['llama_cpp_best_ms']:7.3f} {row['ratio']:18.2f} "
              f"{row['best_ratio']:7.2f}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="Hugging Face folder of a Llama")
    parser.add_argument("--decode", default=str(ROOT / "build/bench/decode"), help="our program")
    parser.add_argument("--gguf", help="path of the GGUF file; created if absent")
    parser.add_argument("--rows", default="1,2,4,8,16,32", help="rows of one sequence, and sequences of one row")
    parser.add_argument("--context", default="128", help="tokens in the cache before them, comma separated")
    parser.add_argument("--prefill", type=int, default=512, help="prompt length in tokens")
    parser.add_argument("--chunk", default="256", help="rows of one pass of our program over the prompt, comma separated")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--prompt", default="Write a query that lists the ten customers with the most orders.")
    parser.add_argument("--greedy", type=int, default=32, help="tokens to continue the prompt by")
    parser.add_argument("--agree", type=int, default=8, help="number of continued tokens that must be equal")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def main():
    arguments = parse()
    prompt = Tokenizer.from_file(f"{arguments.model}/tokenizer.json").encode(arguments.prompt).ids
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(arguments.gguf or pathlib.Path(folder) / "model.gguf")
        if not path.exists():
            convert(arguments.model, path)
        theirs = Theirs(arguments, path)
        ours = Ours(arguments, prompt)
        same = check(arguments, ours, theirs, prompt)
        theirs.fill()
        for number in range(arguments.rounds):
            ours.line("turn")
            theirs.round()
            ours.turn()
            print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
        result = ours.result()
    rows = compare(result, theirs)
    if not arguments.json:
        print_table(rows)
        return
    print(json.dumps({"benchmark": "peers", "llama_cpp": f"llama-cpp-python {llama_cpp.__version__}",
                      "llama_cpp_system": theirs.model.system(), "greedy_tokens_compared": arguments.greedy,
                      "greedy_tokens_equal": same, "comparison": rows, "ours": result}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
