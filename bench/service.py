#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure cost and benefit of learning for a whole service: closed-loop clients send three arms the same requests.

    python3 bench/service.py --target T160 --prompts-root DIR --clients 1,2,4 --requests 120 --system-prompt on,off \\
        --arms learning,static,plain --seeds 3 --json OUT.json

DIR has sql.jsonl, math.jsonl, code.jsonl and lang.jsonl with `prompt` and `topic` in each row. --requests is per topic.
The arms run with the defaults on all cores and take turns on blocks of the requests (bench/closed_loop.py). Greedy answers
are compared across all arms. With `llama` among the arms llama.cpp decodes the same prompts plainly; this needs what
bench/peers.py needs. It runs after the others, not in turns with them, so drift of the machine is in its figures, and
its answers are not compared. `untrained` is `learning` without training: it keeps past answers. `lookup` is `static`
without a draft; `shuffled` is `static` with a draft whose weights are shuffled, which must cost next to nothing.
`learned` is `static` with the drafts that a service publishes while it answers --learn-first other requests a topic: what
training brings when it costs nothing any more.
"""
import argparse
import json
import math
import os
import pathlib
import random
import re
import shutil
import statistics
import struct
import sys
import tempfile

import closed_loop

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOPICS = ("sql", "math", "code", "lang")
FIRST = 48  # requests in which learning is an investment
NOT_COMPARED = {"learning", "untrained", "learned", "llama"}  # the other kinds of arms are what learning must beat
LONGEST_PROMPT = 2000  # characters; a token of code has two or more
SPEEDS = ("whole", "first_48", "last_third")


def read_topic(root, topic):
    """[(label, prompt)] of a topic's file, without prompts that may not fit the embedded model's context of 1,024 tokens."""
    with (root / f"{topic}.jsonl").open() as lines:
        rows = [json.loads(line) for line in lines]
    return [(row["topic"], row["prompt"]) for row in rows if len(row["prompt"]) <= LONGEST_PROMPT]


def read_prompts(root):
    """{topic: read_topic()} of all topics."""
    return {topic: read_topic(root, topic) for topic in TOPICS}


def set_apart(prompts, n):
    """(n prompts of each topic to learn from, the others), each in the order of its file."""
    first, others = {}, {}
    for topic, column in prompts.items():
        if not 0 <= n <= len(column):
            sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: --learn-first {n}, but {topic}.jsonl has {len(column)} prompts")
        drawn = set(random.Random(n).sample(range(len(column)), n))
        first[topic] = [prompt for i, prompt in enumerate(column) if i in drawn]
        others[topic] = [prompt for i, prompt in enumerate(column) if i not in drawn]
    return first, others


def make_requests(prompts, per_topic, order, system, max_tokens, seed, temperature=0.0):
    """`per_topic` requests a topic, drawn without repetition: mixed, round-robin, or one topic after the other (visits)."""
    draw = random.Random(seed)
    columns = []
    for topic in TOPICS:
        if per_topic > len(prompts[topic]):
            program = pathlib.Path(sys.argv[0]).stem
            sys.exit(f"{program}: {per_topic} requests a topic, but {topic}.jsonl has {len(prompts[topic])} prompts for them")
        columns.append([closed_loop.Request(topic, label, prompt, system, max_tokens, temperature=temperature)
                        for label, prompt in draw.sample(prompts[topic], per_topic)])
    if order == "visits":
        return [request for column in columns for request in column]
    requests = [request for row in zip(*columns) for request in row]
    if order == "mixed":
        draw.shuffle(requests)
    return requests


def of_arm(arm, database):
    """One arm's figures; plain data."""
    replies = arm.replies
    late = closed_loop.last_third(replies)
    topics = {}
    for topic in TOPICS:
        own = closed_loop.of_topic(replies, topic)
        thirds = {"first_third": own[:len(own) // 3], "last_third": closed_loop.last_third(own)}
        topics[topic] = {name: {"alpha": closed_loop.alpha(part), "accepted_length": closed_loop.accepted_length(part),
                                "tokens": sum(reply.tokens for reply in part), "steps": sum(reply.steps for reply in part)}
                         for name, part in thirds.items()}
    kinds = [kind for _, _, kind, _, _, _ in closed_loop.decisions(database)]
    return {"tokens_per_s": {"whole": sum(reply.tokens for reply in replies) / arm.seconds,
                             "first_48": closed_loop.tokens_per_s(replies[:FIRST]),
                             "last_third": closed_loop.tokens_per_s(late)},
            "step_ms": {"whole": closed_loop.step_ms(replies), "last_third": closed_loop.step_ms(late)},
            "topics": topics, "seconds": arm.seconds, "decisions": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
            "rss_mib": [{"at_s": at, "mib": mib} for at, mib in arm.memory], "learner_cpu_s": arm.learner_seconds}


def shuffled(weights, seed):
    """A safetensors file with the values of each tensor in another order."""
    size, = struct.unpack("<Q", weights[:8])
    head, body, draw = json.loads(weights[8:8 + size]), bytearray(weights[8 + size:]), random.Random(seed)
    for name, tensor in sorted(head.items()):
        if name == "__metadata__":
            continue
        begin, end = tensor["data_offsets"]
        width = (end - begin) // math.prod(tensor["shape"])
        values = [body[i:i + width] for i in range(begin, end, width)]
        draw.shuffle(values)
        body[begin:end] = b"".join(values)
    return weights[:8 + size] + bytes(body)


def draft_of(arm, draft, folder):
    """The draft that an arm serves with; '' for none. A shuffled one costs what `draft` costs, and is wrong; `folder` gets it."""
    kind = closed_loop.kind_of(arm)
    if kind != "shuffled":
        return "" if kind == "lookup" else draft
    copy = folder / "shuffled-draft"
    shutil.copytree(draft, copy, dirs_exist_ok=True)
    weights = copy / "model.safetensors"
    weights.write_bytes(shuffled(pathlib.Path(draft, weights.name).read_bytes(), seed=1))
    return copy


def model_of(target, draft):
    """The arguments of `slipstream serve` that name its models; a draft of '' is none."""
    return ["--target", target] + (["--draft", draft] if draft else [])


def run_arms(options, folder, requests, clients, drafts):
    """Serves the requests by all arms in turns; {name: figures}, and how many greedy answers differ, None for sampled ones.
    `drafts`: those of the arm `learned`, or None."""
    services, arms, figures = {}, {}, {}
    own = [name for name in options.arms if name != "llama"]
    try:
        for name in own:
            model = model_of(options.target, draft_of(name, options.draft, folder))
            services[name] = closed_loop.Service(options.slipstream, name, folder, model + closed_loop.arguments_of(name),
                                                  closed_loop.config_of(name, options.config_text),
                                                  drafts if closed_loop.kind_of(name) == "learned" else None)
            arms[name] = closed_loop.Arm(name, services[name], len(requests))
        for name, first, last in closed_loop.turns(own, len(requests), options.blocks):
            arms[name].serve(requests, first, last, clients)
            print(f"  {name}: {last} of {len(requests)}, {arms[name].seconds:.0f} s", file=sys.stderr, flush=True)
    finally:
        for service in services.values():
            service.stop()
    for name in own:
        figures[name] = of_arm(arms[name], services[name].data / "ledger.db")
    if "llama" in options.arms:
        import llama_cpp_service  # needs packages of its own
        figures["llama"] = llama_cpp_service.serve(options.target, requests, clients, options.threads, FIRST)
    gains = {}
    if "learning" in arms:
        gains = {topic: late_gain(services["learning"].data / "ledger.db", topic) for topic in TOPICS}
    different = len(closed_loop.different_answers(list(arms.values()))) if options.temperature == 0 else None
    return {"arms": figures, "different": different, "gains": gains}


def late_gain(database, topic):
    """α of the live draft less α of the base draft on the last third of the answers that the learner scored both on. The static
    arm's own α would not do: where its draft is bad it proposes little, and the planner picks the requests where it
    does. None without such answers."""
    live, base = [closed_loop.last_third(scores) for scores in closed_loop.same_text(database, topic)]
    gain, error = closed_loop.paired_gain(live, base)
    return {"gain": gain if live else None, "standard_error": error if math.isfinite(error) else None,
            "scored_answers": len(live)}


def median_of_known(values):
    """None without any that is not None."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def medians(runs):
    """Over the seeds of one setting: tokens/s of every arm, learning's ratio to the best arm without learning, gains, different answers."""
    speeds = {name: {part: statistics.median(run["arms"][name]["tokens_per_s"][part] for run in runs) for part in SPEEDS}
              for name in runs[0]["arms"]}
    others = [name for name in speeds if closed_loop.kind_of(name) not in NOT_COMPARED]
    ratios = {}
    if "learning" in speeds and others:
        def ratio(run, part):
            arms = run["arms"]
            return arms["learning"]["tokens_per_s"][part] / max(arms[name]["tokens_per_s"][part] for name in others)
        ratios = {part: statistics.median(ratio(run, part) for run in runs) for part in SPEEDS}
    gains = {topic: median_of_known(run["gains"][topic]["gain"] for run in runs) for topic in runs[0]["gains"]}
    counts = [run["different"] for run in runs]
    return {"tokens_per_s": speeds, "learning_to_best_other": ratios, "gains": gains, "different": None if None in counts else sum(counts)}


def gains_as_text(gains):
    return " ".join(f"{topic} –" if gain is None else f"{topic} {gain:+.3f}" for topic, gain in gains.items())


def print_table(rows, arms):
    width = max(10, max(map(len, arms)) + 2)
    print(f"{'setting':<30}{'':<12}" + "".join(f"{name:>{width}}" for name in arms) + f"{'ratio':>8}   gain of α in the last third · answers different")
    for row in rows:
        found = row["median"]
        for part in SPEEDS:
            setting = f"{row['clients']} clients, system prompt {row['system_prompt']}" if part == SPEEDS[0] else ""
            ratio = found["learning_to_best_other"].get(part)
            tail = ""
            if part == SPEEDS[0]:
                tail = gains_as_text(found["gains"]) + f" · {'not compared' if found['different'] is None else found['different']}"
            print(f"{setting:<30}{part:<12}" + "".join(f"{found['tokens_per_s'][name][part]:>{width}.1f}" for name in arms)
                  + (f"{ratio:>8.2f}" if ratio else f"{'–':>8}") + f"   {tail}")


def as_json(options, rows):
    return json.dumps({"benchmark": "service", "requests_per_topic": options.requests, "order": options.order, "seeds": options.seeds,
                       "learn_first": options.learn_first, "temperature": options.temperature, "blocks": options.blocks, "settings": rows}, indent=1) + "\n"


def add_arguments(parser, draft_help=None):
    """The models, prompts and program of a benchmark that starts services."""
    parser.add_argument("--target", required=True, help="target folder, e.g. one that bench/inflate wrote")
    parser.add_argument("--draft", default=str(ROOT / "checkpoints/demo/draft"), help=draft_help)
    parser.add_argument("--prompts-root", required=True, type=pathlib.Path, help="folder of sql.jsonl, math.jsonl, code.jsonl, lang.jsonl")
    parser.add_argument("--slipstream", default=str(ROOT / "build/slipstream"))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, draft_help="'' serves without one, by prompt lookup alone")
    parser.add_argument("-c", "--config", type=pathlib.Path, help="TOML for every service instead of the defaults")
    parser.add_argument("--arms", type=listed(str), default=["learning", "static", "plain"], help="of learning, untrained, static, learned, plain, lookup, shuffled, llama; static:k=5 adds --k 5")
    parser.add_argument("--clients", type=listed(int), default=[1, 2, 4])
    parser.add_argument("--requests", type=int, default=120, help="per topic")
    parser.add_argument("--learn-first", type=int, default=0, help="requests a topic from which the drafts of the arm learned come")
    parser.add_argument("--order", choices=["mixed", "round-robin", "visits"], default="mixed", help="visits: one topic after the other")
    parser.add_argument("--system-prompt", type=listed(str), default=["on", "off"])
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--temperature", type=float, default=0.0, help="above 0: drawn without a seed, as most clients ask, and not compared")
    parser.add_argument("--blocks", type=int, default=6, help="turns of each arm; 1: one arm after the other")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each setting, each with other prompts in another order")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of llama.cpp")
    parser.add_argument("--json", help="write everything into this file; -: print it instead of the table, for bench/record.py")
    options = parser.parse_args()
    unknown = {arm for arm in options.arms if closed_loop.kind_of(arm) not in closed_loop.ARMS} - {"llama"}
    if unknown:
        parser.error(f"unknown arms: {', '.join(sorted(unknown))}")
    if not options.draft and any(closed_loop.kind_of(arm) == "shuffled" for arm in options.arms):
        parser.error("the arm shuffled needs a --draft")
    learned = any(closed_loop.kind_of(arm) == "learned" for arm in options.arms)
    if learned != (options.learn_first > 0):
        parser.error("the arm learned and --learn-first need each other")
    if learned and not options.draft:
        parser.error("the arm learned needs a --draft")
    if options.temperature > 0 and "llama" in options.arms:
        parser.error("the arm llama decodes greedily: leave it out, or --temperature")
    if set(options.system_prompt) - {"on", "off"}:
        parser.error("--system-prompt takes on, off, or both")
    options.config_text = options.config.read_text() if options.config else ""
    if any(closed_loop.kind_of(arm) in closed_loop.LEARNING_KEYS for arm in options.arms) and re.search(r"^\s*governor\s*=", options.config_text, re.M):
        parser.error("the arm untrained sets learning.governor: leave it out of --config")
    return options


def listed(kind):
    """An argument type: values of `kind`, comma separated."""
    return lambda text: [kind(part) for part in text.split(",")]


def main():
    options = parse()
    first, prompts = set_apart(read_prompts(options.prompts_root), options.learn_first)
    rows = []
    for clients in options.clients:
        for system in options.system_prompt:
            runs = []
            for seed in range(1, options.seeds + 1):
                print(f"{clients} clients, system prompt {system}, seed {seed}", file=sys.stderr, flush=True)
                prefix = closed_loop.SYSTEM_PROMPT if system == "on" else ""
                requests = make_requests(prompts, options.requests, options.order, prefix, options.max_tokens, seed, options.temperature)
                with tempfile.TemporaryDirectory() as folder:
                    folder, drafts, published = pathlib.Path(folder), None, None
                    if options.learn_first:
                        lessons = make_requests(first, options.learn_first, options.order, prefix, options.max_tokens, seed, options.temperature)
                        model = model_of(options.target, options.draft)
                        drafts, published = closed_loop.learn_drafts(options.slipstream, folder, model, lessons, clients, options.config_text)
                    runs.append({"published_first": published, **run_arms(options, folder, requests, clients, drafts)})
            rows.append({"clients": clients, "system_prompt": system, "median": medians(runs), "runs": runs})
            if options.json not in (None, "-"):  # after every setting: the whole takes hours
                pathlib.Path(options.json).write_text(as_json(options, rows))
    if options.json == "-":
        print(as_json(options, rows), end="")
    else:
        print_table(rows, options.arms)
    if any(row["median"]["different"] for row in rows):
        sys.exit("service: answers differ between the arms")


if __name__ == "__main__":
    closed_loop.run("service", main)
