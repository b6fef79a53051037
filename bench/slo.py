#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how many requests get the time per output token (TPOT) that they ask for, under open-loop load.

    python3 bench/slo.py --target T160 --prompts-root DIR --load 0.6,0.8,1.0 --mix 60,20,20 --tpot 1.0,2.4,8 --json OUT.json

DIR is that of bench/service.py. Requests arrive by a Poisson process and belong to a tier by --mix; a tier's target is
--tpot times the TPOT of plain decoding with eight clients: the tenth percentile of 64 requests, since the least of them
is one request's luck. Load 1 is the rate that plain decoding with eight clients serves.
Arms, which get the same requests at the same times:
  deadlines  the service's defaults
  refusing   the same with slo.admission = "refuse": a request whose target is not predicted to be met is not served
  ignored    the defaults with engine.deadlines = false: targets are measured, nothing is planned by them
  adaserve   the policy of that paper: speculation.policy = "adaserve"
  fcfs, stta  no speculation, in batches that the tightest target allows: speculation.policy = "fcfs", "stta"
  chain1, chain3  always so many tokens of the draft, targets ignored
  plain      the defaults without speculation, targets ignored
With --learn-first N all arms serve the drafts that a service publishes while it answers N other requests a topic; without it
the base draft, to which two of the topics are new. No arm learns.
Attainment is the share of requests whose TPOT met their target, refused ones included, goodput the tokens per second of
those alone (AdaServe, arXiv 2501.12162).

With --profile FILE, which `slipstream profile` wrote before, `slipstream simulate` predicts both for each arm and load
from FILE and the requests in the arm's ledger: when they came, their lengths and targets, their topics' acceptance. Of a
refusing arm nothing is predicted: its ledger lacks the refused requests."""

import argparse
import dataclasses
import json
import math
import pathlib
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import closed_loop
import service

IGNORED = "[engine]\ndeadlines = false\n"
FIXED_LENGTH = IGNORED + "[speculation]\nadaptive = false\nprompt_lookup = false\ntree_width = 1\n"
ARMS = {"deadlines": ([], ""),
        "refusing": ([], '[slo]\nadmission = "refuse"\n'),
        "ignored": ([], IGNORED),
        "adaserve": ([], '[speculation]\npolicy = "adaserve"\n'),
        "fcfs": ([], '[speculation]\npolicy = "fcfs"\n'),
        "stta": ([], '[speculation]\npolicy = "stta"\n'),
        "chain1": (["--k", "1"], FIXED_LENGTH),
        "chain3": (["--k", "3"], FIXED_LENGTH),
        "plain": (["--no-speculation"], IGNORED)}
# An arm's name in `slipstream simulate`, and what it plans by; its other defaults are the service's, as --max-running.
SIMULATED = {"deadlines": ("auto", ["--deadlines"]), "ignored": ("auto", []), "adaserve": ("adaserve", ["--deadlines"]),
             "fcfs": ("fcfs", ["--deadlines"]), "stta": ("stta", ["--deadlines"]),
             "chain1": ("k1", []), "chain3": ("k3", []), "plain": ("none", [])}
WITHOUT_DRAFT = ("refusing", "fcfs", "stta", "plain")  # arms whose prediction needs no draft in the profile
SIMULATED_SEEDS = 5  # of a prediction, which is their mean
BASELINE_SHARE = 0.1  # of the requests are faster than the baseline
MOST_PROMPTS = 150  # of a topic
CLIENTS = 8  # AdaServe's baseline: plain decoding of a batch of eight


def start(options, folder, arm, drafts=None):
    arguments, text = ARMS[arm]
    model = service.model_of(options.target, options.draft)
    return closed_loop.Service(options.slipstream, arm, folder, model + ["--no-learning"] + arguments, text, drafts)


def baseline_tpot(tpots):
    if not tpots:
        raise closed_loop.ServiceError("no answer of plain decoding has two tokens, so there is no time per token")
    return closed_loop.percentile(tpots, BASELINE_SHARE)


def baseline(options, folder, requests):
    """(TPOT in ms at BASELINE_SHARE, requests per second) of plain decoding with eight clients that never pause."""
    one = start(options, folder, "plain")
    try:
        arm = closed_loop.Arm("plain", one, len(requests))
        arm.serve(requests, 0, len(requests), CLIENTS)
        tpots = [row[0] for row in sqlite3.connect(one.data / "ledger.db").execute(
            "SELECT tpot_ms FROM requests WHERE output_tokens > 1")]
        return baseline_tpot(tpots), len(requests) / arm.seconds
    finally:
        one.stop()


def arrivals(rate, duration, seed):
    draw, at, times = random.Random(seed), 0.0, []
    while True:
        at += draw.expovariate(rate)
        if at > duration:
            return times
        times.append(at)


def pool_size(prompts, n_requests):
    """How many different requests each topic needs for `n_requests`. If there are too few prompts, requests come again."""
    return min(MOST_PROMPTS, math.ceil(n_requests / len(prompts)), *map(len, prompts.values()))


def run_arm(options, folder, arm, drafts, requests, times):
    """One record a request: its tier's target, what it got, its tokens."""
    one = start(options, folder, arm, drafts)
    found, failures = [None] * len(times), []
    try:
        began = time.monotonic()

        def ask(i):
            try:
                reply = one.chat(requests[i])
                figures = reply["metrics"]["slo"]
                found[i] = {**figures, "tokens": reply["usage"]["completion_tokens"],
                            "text": reply["choices"][0]["message"]["content"]}
            except (closed_loop.ServiceError, OSError, KeyError) as error:
                if getattr(error, "code", None) == "slo_unattainable":
                    found[i] = {"met": False, "tokens": 0, "text": None}
                else:
                    failures.append(error)

        threads = []
        for i, at in enumerate(times):
            time.sleep(max(0.0, began + at - time.monotonic()))
            threads.append(threading.Thread(target=ask, args=(i,)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        elapsed = time.monotonic() - began
    finally:
        one.stop()
    if failures:
        raise failures[0]
    return found, elapsed


def figures_of(found, elapsed, tiers):
    """Plain data."""
    def attainment(records):
        return sum(record["met"] for record in records) / len(records) if records else None

    served = [record for record in found if record["text"] is not None]
    violation = [record["measured_tpot_ms"] / record["tpot_ms"] for record in served]
    ttft = [record["measured_ttft_ms"] for record in served]
    return {"requests": len(found), "refused": 1 - len(served) / len(found), "attainment": attainment(found),
            "attainment_of_served": attainment(served),
            "by_tier": [attainment([record for record, tier in zip(found, tiers) if tier == i]) for i in range(max(tiers) + 1)],
            "goodput_tokens_per_s": sum(record["tokens"] for record in found if record["met"]) / elapsed,
            "tokens_per_s": sum(record["tokens"] for record in found) / elapsed,
            "violation": {"p50": closed_loop.percentile(violation, 0.5), "p99": closed_loop.percentile(violation, 0.99)},
            "ttft_ms": {"p50": closed_loop.percentile(ttft, 0.5), "p99": closed_loop.percentile(ttft, 0.99)}}


def read_profile(file, arms):
    """The text of a profile that can predict these arms. ServiceError otherwise, before anything is measured."""
    try:
        text = pathlib.Path(file).read_text()
        profile = json.loads(text)
    except (OSError, ValueError) as error:
        raise closed_loop.ServiceError(f"--profile {file}: {error}") from error
    if not isinstance(profile, dict) or "slipstream_profile" not in profile:
        raise closed_loop.ServiceError(f"--profile {file} is no profile; make one with: slipstream profile")
    if "draft" not in profile and any(arm not in WITHOUT_DRAFT for arm in arms):
        raise closed_loop.ServiceError(f"--profile {file} has no draft; make one with: slipstream profile --draft DIR")
    return text


def simulate_command(program, profile, ledger, arm, seed):
    name, plans_by = SIMULATED[arm]
    return [str(part) for part in [program, "simulate", "--profile", profile, "--ledger", ledger, "--arms", name, "--seed", seed,
                                   "--json"] + plans_by]


def simulate(command):
    """What the clients of the one arm would see, as `slipstream simulate` prints it."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise closed_loop.ServiceError(f"{' '.join(command)}: {done.stderr.strip()}")
    (figures,) = json.loads(done.stdout)["loads"][0]["arms"].values()
    return figures


def compared(measured, simulated):
    """What to add to an arm's figures: the mean of what was simulated with several seeds, and its difference to them."""
    predicted = {key: statistics.mean(one[key] for one in simulated) for key in ("attainment", "goodput_tokens_per_s")}
    by_target = {}
    for one in simulated:
        for target in one["attainments"]:
            by_target.setdefault(target["tpot_ms"], []).append(target["attainment"])
    return {"predicted_requests": sum(target["requests"] for target in simulated[0]["attainments"]),
            "predicted_by_tpot_ms": [[ms, statistics.mean(found)] for ms, found in by_target.items()]} | \
        {f"predicted_{key}": value for key, value in predicted.items()} | \
        {f"predicted_less_measured_{key}": value - measured[key] for key, value in predicted.items()}


def prediction(options, profile, ledger, arm, measured):
    """compared(), nothing for an arm that cannot be simulated, or why the simulation failed: the measurement is kept."""
    if arm not in SIMULATED:
        return {}
    try:
        return compared(measured, [simulate(simulate_command(options.slipstream, profile, ledger, arm, seed))
                                   for seed in range(1, SIMULATED_SEEDS + 1)])
    except closed_loop.ServiceError as error:
        return {"prediction_failed": str(error)}


def run(options):
    profile_text = read_profile(options.profile, options.arms) if options.profile else None
    first, prompts = service.set_apart(service.read_prompts(pathlib.Path(options.prompts_root)), options.learn_first)
    result = {"benchmark": "slo", "mix": options.mix, "tpot": options.tpot, "duration_s": options.duration,
              "learn_first": options.learn_first, "loads": []}
    with tempfile.TemporaryDirectory() as folder:
        folder, drafts = pathlib.Path(folder), None
        profile = folder / "profile.json"  # a copy: nothing that happens during the run changes what predicts it
        if profile_text:
            profile.write_text(profile_text)
            result["profile"] = json.loads(profile_text)
        warm = service.make_requests(prompts, 16, "mixed", closed_loop.SYSTEM_PROMPT, options.max_tokens, seed=0)
        if options.learn_first:
            lessons = service.make_requests(first, options.learn_first, "mixed", closed_loop.SYSTEM_PROMPT, options.max_tokens, seed=0)
            model = service.model_of(options.target, options.draft)
            drafts, result["published_first"] = closed_loop.learn_drafts(options.slipstream, folder, model, lessons, 2)
        tpot_ms, rate = baseline(options, folder, warm)
        result |= {"baseline_tpot_ms": tpot_ms, "baseline_requests_per_s": rate}
        print(f"plain decoding, {CLIENTS} clients: TPOT {tpot_ms:.1f} ms, {rate:.2f} requests/s", file=sys.stderr, flush=True)
        for load in options.load:
            runs = []
            for seed in range(1, options.seeds + 1):
                times = arrivals(load * rate, options.duration, seed)
                tiers = random.Random(1000 + seed).choices(range(len(options.mix)), options.mix, k=len(times))
                pool = service.make_requests(prompts, pool_size(prompts, len(times)), "mixed", closed_loop.SYSTEM_PROMPT,
                                             options.max_tokens, seed)
                requests = [dataclasses.replace(pool[i % len(pool)], tpot_ms=options.tpot[tier] * tpot_ms) for i, tier in enumerate(tiers)]
                found = {}
                for arm in options.arms if seed % 2 else options.arms[::-1]:
                    found[arm], elapsed = run_arm(options, folder, arm, drafts, requests, times)
                    figures = figures_of(found[arm], elapsed, tiers)
                    if profile_text:  # now: the arm's next service begins a new ledger
                        figures |= prediction(options, profile, folder / arm / "ledger.db", arm, figures)
                    runs.append((arm, figures))
                    print(f"  load {load:g}, seed {seed}, {arm}: {json.dumps(runs[-1][1])}", file=sys.stderr, flush=True)
                for answers in zip(*(found[arm] for arm in options.arms)):
                    if len({record["text"] for record in answers if record["text"] is not None}) > 1:
                        sys.exit("slo: answers differ between the arms")
            result["loads"].append({"load": load, "requests_per_s": load * rate, "runs": [[arm, one] for arm, one in runs]})
    return result


def median(runs, arm, value):
    return statistics.median(value(one) for name, one in runs if name == arm)


def predicted_cells(runs, arm):
    """Columns of the table: attainment and goodput as predicted, and how much that is above what was measured."""
    if not all("predicted_attainment" in one for name, one in runs if name == arm):
        return f"{'–':>11}{'–':>8}{'–':>9}{'–':>8}"
    def of(key):
        return median(runs, arm, lambda one: one[key])
    return (f"{of('predicted_attainment'):>11.2f}{of('predicted_less_measured_attainment'):>+8.2f}"
            f"{of('predicted_goodput_tokens_per_s'):>9.0f}{of('predicted_less_measured_goodput_tokens_per_s'):>+8.0f}")


def print_table(result, arms):
    predicts = "profile" in result
    print(f"{'load':>5}  {'arm':<11}{'attainment':>11}{'refused':>9}{'of served':>11}{'goodput':>9}{'tokens/s':>10}{'violation p50':>15}{'p99':>7}{'TTFT p50, ms':>14}"
          + (f"{'predicted':>11}{'diff.':>8}{'goodput':>9}{'diff.':>8}" if predicts else ""))
    for row in result["loads"]:
        for arm in arms:
            def of(*path):
                def value(one):
                    for key in path:
                        one = one[key]
                    return one
                return median(row["runs"], arm, value)
            print(f"{row['load']:>5g}  {arm:<11}{of('attainment'):>11.2f}{of('refused'):>9.2f}{of('attainment_of_served'):>11.2f}{of('goodput_tokens_per_s'):>9.0f}{of('tokens_per_s'):>10.0f}"
                  f"{of('violation', 'p50'):>15.2f}{of('violation', 'p99'):>7.2f}{of('ttft_ms', 'p50'):>14.0f}"
                  + (predicted_cells(row["runs"], arm) if predicts else ""))


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, help="target folder, e.g. one that bench/inflate wrote")
    parser.add_argument("--draft", default=str(root / "checkpoints/demo/draft"))
    parser.add_argument("--prompts-root", required=True, help="folder of sql.jsonl, math.jsonl, code.jsonl, lang.jsonl")
    parser.add_argument("--slipstream", default=str(root / "build/slipstream"))
    parser.add_argument("--load", type=service.listed(float), default=[0.6, 0.8, 1.0], help="shares of plain decoding's rate")
    parser.add_argument("--mix", type=service.listed(float), default=[60, 20, 20], help="weights of the tiers")
    parser.add_argument("--tpot", type=service.listed(float), default=[1.0, 2.4, 8.0], help="of each tier, in plain TPOTs")
    parser.add_argument("--duration", type=float, default=40, help="seconds in which requests arrive")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--arms", type=service.listed(str), default=["deadlines", "refusing", "ignored", "adaserve", "plain"], help=f"of {', '.join(ARMS)}")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--learn-first", type=int, default=0, help="requests a topic from which all arms' drafts learned; 0: the base draft")
    parser.add_argument("--profile", help="file that `slipstream profile` wrote: predict each arm and load from it too")
    parser.add_argument("--json", help="write everything into this file; -: print it instead of the table")
    options = parser.parse_args()
    if len(options.mix) != len(options.tpot):
        parser.error("--mix and --tpot need one value a tier each")
    if unknown := set(options.arms) - set(ARMS):
        parser.error(f"unknown arms: {', '.join(sorted(unknown))}")
    result = run(options)
    closed_loop.report(result, options.json, lambda found: print_table(found, options.arms))


if __name__ == "__main__":
    closed_loop.run("slo", main)
