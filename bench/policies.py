#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare who gets the rows of a step, by simulation: how many requests get the time per token that they ask for.

    python3 bench/policies.py --profile bench/profiles/epyc-avx512-t160.json --baseline-ms 12 --rate 2.4,3.2,4.0 --json -

Every mix of requests and every rate is simulated with each seed. Targets are --tpot times --baseline-ms, the time per
token of plain decoding with eight clients (baseline_tpot_ms of bench/slo.py). Arms get the same requests at the same
times:
  planned    the service's defaults: speculation.policy = "goodput", engine.deadlines = true
  ignored    the same without deadlines
  adaserve, equal_greedy, global_greedy, static_tree   other policies
  fcfs, stta                              no speculation, in batches that the tightest target allows
  k1, k3, k5, none                        chains of fixed length, and plain decoding
Attainment is the share of requests on time, goodput the tokens per second of those alone (AdaServe, arXiv 2501.12162)."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import closed_loop
import service

PLANNED = ["auto", "adaserve", "equal_greedy", "global_greedy", "static_tree", "fcfs", "stta", "k1", "k3", "k5"]
NAMES = {("auto", True): "planned", ("auto", False): "ignored"}


def simulate(options, mix, seed, arms, deadlines):
    """The loads of one simulation, as JSON."""
    def joined(values):
        return ",".join(f"{value:g}" for value in values)
    command = [options.slipstream, "simulate", "--profile", options.profile, "--topics", options.topics, "--rate",
               joined(options.rate), "--duration", f"{options.duration:g}", "--max-tokens", str(options.max_tokens),
               "--prompt-tokens", str(options.prompt_tokens), "--tpot-ms",
               joined(options.baseline_ms * factor for factor in options.tpot), "--mix", joined(mix), "--seed", str(seed),
               "--arms", ",".join(arms), "--json"]
    return json.loads(subprocess.run(command + (["--deadlines"] if deadlines else []), check=True, capture_output=True,
                                     text=True).stdout)["loads"]


def figures_of(options, mix):
    """{rate: {arm: [figures of each seed]}}"""
    found = {}
    for seed in range(1, options.seeds + 1):
        for deadlines, arms in ((True, PLANNED), (False, ["auto", "none"])):
            for load in simulate(options, mix, seed, arms, deadlines):
                for arm, figures in load["arms"].items():
                    name = NAMES.get((arm, deadlines), arm)
                    found.setdefault(load["rate_per_s"], {}).setdefault(name, []).append(
                        {"attainment": figures["attainment"], "goodput_tokens_per_s": figures["goodput_tokens_per_s"],
                         "by_target": [one["attainment"] for one in figures["attainments"]],
                         "tokens_per_s": figures["tokens_per_s"], "ttft_p50_ms": figures["ttft_ms"]["p50"]})
    return found


def mean(runs, key):
    return statistics.mean(run[key] for run in runs)


def print_table(mixes):
    for one in mixes:
        for load in one["loads"]:
            print(f"\nmix {'/'.join(f'{share:g}' for share in one['mix'])}, {load['rate_per_s']:g} requests a second")
            print(f"{'':<15}{'on time':>9}{'goodput':>9}{'tokens/s':>10}{'TTFT p50, ms':>14}")
            for arm, runs in sorted(load["arms"].items(), key=lambda item: -mean(item[1], "attainment")):
                print(f"{arm:<15}{mean(runs, 'attainment'):>9.3f}{mean(runs, 'goodput_tokens_per_s'):>9.0f}"
                      f"{mean(runs, 'tokens_per_s'):>10.0f}{mean(runs, 'ttft_p50_ms'):>14.0f}")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", required=True, help="file that `slipstream profile` wrote")
    parser.add_argument("--slipstream", default=str(root / "build/slipstream"))
    parser.add_argument("--baseline-ms", type=float, required=True, help="time per token that a target of 1 stands for")
    parser.add_argument("--topics", default="sql=0.55,code=0.5,math=0.75,lang=0.7", help="names and acceptance rates")
    parser.add_argument("--rate", type=service.listed(float), default=[2.4, 3.2, 4.0], help="requests a second")
    parser.add_argument("--mix", action="append", type=service.listed(float), help="weights of the targets; more than once")
    parser.add_argument("--tpot", type=service.listed(float), default=[1.0, 2.4, 8.0], help="targets, in --baseline-ms")
    parser.add_argument("--duration", type=float, default=60, help="seconds in which requests arrive")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--prompt-tokens", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", help="write everything into this file; -: print it instead of the table")
    options = parser.parse_args()
    mixes = []
    for mix in options.mix or [[60, 20, 20]]:
        if len(mix) != len(options.tpot):
            parser.error("--mix and --tpot need one value a target each")
        print(f"policies: mix {mix}", file=sys.stderr, flush=True)
        mixes.append({"mix": mix, "loads": [{"rate_per_s": rate, "arms": arms} for rate, arms in figures_of(options, mix).items()]})
    result = {"benchmark": "policies", "tpot": options.tpot, "baseline_ms": options.baseline_ms, "mixes": mixes}
    closed_loop.report(result, options.json, lambda found: print_table(found["mixes"]))


if __name__ == "__main__":
    main()
