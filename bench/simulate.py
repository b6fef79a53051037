#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare what `slipstream simulate` predicts with what the clients of a service see.

    python3 bench/simulate.py --target T160 --prompts FILE.jsonl --load 0.2,0.5,0.8 --trace TRACE.csv --json OUT.json

For each arm and load: `slipstream profile`, then bench/load over HTTP, then a second profile. Each profile alone predicts
the load: `simulate` replays the requests of the service's ledger at their times, with its acceptance rates. Two profiles,
since a machine whose speed changed in between can be predicted by neither. A load is a share of what the arm itself serves
to eight clients. Prompts are those of FILE.jsonl, of which a profile knows nothing."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import closed_loop

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What is compared: (name, how to read it from a summary of bench/load or simulate).
FIGURES = {"e2e_ms": lambda one: one["e2e_ms"]["mean"], "ttft_ms": lambda one: one["ttft_ms"]["mean"],
           "itl_ms": lambda one: one["itl_ms"]["mean"], "tokens_per_s": lambda one: one["tokens_per_s"],
           "goodput_per_s": lambda one: one["goodput_per_s"]}


def output(command):
    return json.loads(subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True).stdout)


def ratios(predicted, measured):
    """{figure: predicted / measured}; None where nothing was measured."""
    found = {}
    for name, read in FIGURES.items():
        truth = read(measured)
        found[name] = read(predicted) / truth if truth else None
    return found


def targets(options):
    return ["--tpot-ms", options.tpot_ms, "--ttft-ms", options.ttft_ms]


def run_load(options, folder, arm, load):
    """A load's figures as bench/load prints them, and the ledger that it left."""
    command = [options.bench, "--arms", arm, "--capacity-arm", arm, "--target", options.target, "--draft", options.draft,
               "--prompts", options.prompts, "--load", load, "--rounds", 1, "--duration", options.duration,
               "--max-tokens", options.max_tokens, "--seed", options.seed, "--work", folder, "--json"] + targets(options)
    if options.trace:
        command += ["--trace", options.trace]
    return output(command), folder / arm / "data/ledger.db"


def profile(options, file):
    command = [options.slipstream, "profile", "--target", options.target, "--draft", options.draft, "--out", file]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    return file


def predict(options, arm, file, ledger):
    command = [options.slipstream, "simulate", "--profile", file, "--ledger", ledger, "--arms", arm, "--json"]
    return output(command + targets(options))["loads"][0]["arms"][arm]


def compare(options, folder, arm, load):
    before = profile(options, folder / "before.json")
    measured, ledger = run_load(options, folder / "load", arm, load)
    after = profile(options, folder / "after.json")
    figures = measured["arms"][arm]
    row = {"arm": arm, "load": load, "rate_per_s": measured["rate_per_s"], "measured": figures}
    for name, file in (("before", before), ("after", after)):
        row[name] = predict(options, arm, file, ledger)
        row[f"{name}_to_measured"] = ratios(row[name], figures)
    return row


def print_table(rows):
    print(f"{'arm':<6}{'load':>5}{'requests/s':>12}   predicted / measured, by the profile before and the one after")
    print(f"{'':<23}" + "".join(f"{name:>18}" for name in FIGURES))
    for row in rows:
        cells = []
        for name in FIGURES:
            pair = [row[f"{when}_to_measured"][name] for when in ("before", "after")]
            cells.append(" ".join("–" if one is None else f"{one:.2f}" for one in pair))
        print(f"{row['arm']:<6}{row['load']:>5g}{row['rate_per_s']:>12.2f}" + "".join(f"{cell:>18}" for cell in cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, help="target folder, e.g. one that bench/inflate wrote")
    parser.add_argument("--draft", default=str(ROOT / "checkpoints/demo/draft"))
    parser.add_argument("--prompts", required=True, help="JSONL with `prompt` and `topic`, used in turn")
    parser.add_argument("--trace", help="arrivals, as of bench/load; without it Poisson's")
    parser.add_argument("--arms", type=lambda text: text.split(","), default=["auto", "none"], help="of auto and none")
    parser.add_argument("--load", type=lambda text: [float(part) for part in text.split(",")], default=[0.2, 0.5, 0.8],
                        help="shares of the arm's own capacity")
    parser.add_argument("--duration", type=float, default=40, help="seconds in which requests arrive")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--tpot-ms", type=float, default=20, help="target that goodput counts by")
    parser.add_argument("--ttft-ms", type=float, default=500, help="target that goodput counts by")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slipstream", default=str(ROOT / "build/slipstream"))
    parser.add_argument("--bench", default=str(ROOT / "build/bench/load"))
    parser.add_argument("--json", help="write everything into this file; -: print it instead of the table")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for load in options.load:
            for arm in options.arms:
                rows.append(compare(options, pathlib.Path(folder), arm, load))
                print(f"{arm}, load {load:g}: {json.dumps(rows[-1]['before_to_measured'])}", file=sys.stderr, flush=True)
    result = {"benchmark": "simulate", "trace": bool(options.trace), "rows": rows}
    closed_loop.report(result, options.json, lambda found: print_table(found["rows"]))


if __name__ == "__main__":
    main()
