#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Losslessness end to end, on more than tokens: `slipstream generate` with speculation must give the same token ids, log
probabilities and raw-logit checksums as plain decoding with no draft loaded, for every draft length, at any concurrency,
and while the draft is swapped inside every answer.

Each mode (greedy, coupled sampling with a seed, both with the parameters that edit logits or end answers, and a response
format) has a negative control that must differ: greedy against sampled, one seed against another, without what the mode
adds. Answers in a response format must satisfy its schema unless they were cut. Exit status 0 only if all runs are equal,
all controls differ and all documents are right.

`--matrix` is about batch invariance instead of swaps: every draft length 0 to 8 with batches up to 32, prompts read in
chunks of 1 to 256 rows, and 1 to 3 threads, all against one prompt after the other on one thread. All combinations take
hours; with `--quick` each value of each comes once."""
import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import demo_prompts  # noqa: E402

FORMAT = ROOT / "tests/data/response_format.json"  # asks for documents of many tokens, so that swaps come within
FIELDS = ("token_ids", "top_logprobs", "checksum", "text", "stop_reason")
MODES = {
    "greedy": ["--temperature", "0"],
    "T0.7": ["--temperature", "0.7", "--top-p", "0.9", "--seed", "4242"],
    "T1.0": ["--temperature", "1.0", "--top-p", "0.9", "--seed", "4242"],
    "penalties": ["--temperature", "0", "--repetition-penalty", "1.2", "--presence-penalty", "0.4", "--frequency-penalty", "0.3"],
    "min-p+bias": ["--temperature", "1.0", "--min-p", "0.05", "--logit-bias", "5=-100", "--logit-bias", "11=1.5", "--min-tokens", "12",
                   "--seed", "4242"],
    "everything": ["--temperature", "0.9", "--top-p", "0.95", "--top-k", "40", "--min-p", "0.02", "--repetition-penalty", "1.1",
                   "--presence-penalty", "0.2", "--frequency-penalty", "-0.1", "--logit-bias", "11=-2", "--min-tokens", "4",
                   "--stop", "the", "--stop-token", "13", "--seed", "4242"],
    "schema": ["--temperature", "0.9", "--seed", "4242", "--response-format", str(FORMAT)],
}
CONTROLS = {  # must give different answers from the mode's own
    "greedy": ["--temperature", "1.0", "--top-p", "0.9", "--seed", "4242"],
    "T0.7": ["--temperature", "0.7", "--top-p", "0.9", "--seed", "4243"],
    "T1.0": ["--temperature", "1.0", "--top-p", "0.9", "--seed", "4243"],
    "penalties": ["--temperature", "0"],
    "min-p+bias": ["--temperature", "1.0", "--seed", "4242"],
    "everything": ["--temperature", "0.9", "--top-p", "0.95", "--top-k", "40", "--seed", "4242"],
    "schema": ["--temperature", "0.9", "--seed", "4242"],
}
QUICK = {"bfloat16": ["greedy", "T1.0", "everything", "schema"], "float32": ["greedy", "T1.0", "everything"]}
MAX_TOKENS = {"schema": 256}  # most documents are shorter

SWAPS = {  # how the draft is swapped under way
    "swap": ["--swap-every", "1", "--catch-up-rows", "4096"],  # another draft every step, each taken up at once
    "late": ["--swap-every", "2"],  # newer drafts come while a cache still catches up with the last one
}
MOST_STEPS_WITHOUT_SWAP = {"swap": 2, "late": 12}  # an answer of one verified proposal cannot see any


MATRIX = {"modes": ["greedy", "T1.0"], "k": list(range(9)), "concurrency": [1, 2, 3, 4, 8, 16, 32],
          "prefill_chunk": [1, 3, 16, 64, 256], "threads": [1, 2, 3]}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slipstream", default=str(ROOT / "build/slipstream"))
    parser.add_argument("--target", default=str(ROOT / "checkpoints/demo/target"))
    parser.add_argument("--draft", default=str(ROOT / "checkpoints/demo/draft"))
    parser.add_argument("--swap-draft", help="a second draft of the same shape, swapped in and out every few steps (default: a few "
                                             "optimizer steps away from the first)")
    parser.add_argument("--prompts", nargs="+", help="JSONL files with `prompt` (default: two of each kind from tools/demo_prompts.py)")
    parser.add_argument("--per-file", type=int, default=100, help="prompts taken from each file (default 100)")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument("--k", nargs="+", type=int, default=[1, 3, 5, 8])
    parser.add_argument("--concurrency", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--prefill-chunk", nargs="+", type=int, default=[256])
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--matrix", action="store_true", help="all draft lengths, batches, prompt chunks and thread counts, without swaps")
    parser.add_argument("--json", help="also write the table here")
    parser.add_argument("--quick", action="store_true",
                        help="a minute's selection: short answers (but for documents), at most four modes, two draft lengths")
    options = parser.parse_args()
    if options.matrix:
        for name in ("modes", "k", "concurrency", "prefill_chunk", "threads"):
            if getattr(options, name) == parser.get_default(name):
                setattr(options, name, MATRIX[name])
        options.max_tokens, options.dtypes = 24, options.dtypes if not options.quick else ["bfloat16"]
    elif options.quick:
        options.max_tokens, options.k = 24, [3, 8]
    return options


def write_prompts(options, file):
    if options.prompts:
        lines = [line for name in options.prompts for line in pathlib.Path(name).read_text().splitlines()[:options.per_file]]
    else:
        drawn = demo_prompts.stream(20)
        topics = dict.fromkeys(topic for topic, _, _ in drawn)
        lines = [json.dumps({"prompt": text}) for topic in topics for text in [t for kind, _, t in drawn if kind == topic][:2]]
        if options.matrix:  # as many as the largest batch
            lines = [json.dumps({"prompt": text}) for _, _, text in demo_prompts.stream(8)][:32]
    file.write_text("\n".join(lines) + "\n")


def make_swap_draft(options, prompts, folder):
    """A draft of the same shape with other weights; whether it is any good does not matter here."""
    draft = folder / "swap-draft"
    command = [options.slipstream, "warmup", "--target", options.target, "--draft", options.draft, "--data", str(prompts), "--out",
               str(draft), "--steps", "2", "--batch", "4", "--max-tokens", "16"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {' '.join(command)}\n{done.stderr}")
    return str(draft)


def max_tokens_of(options, mode):
    """With --quick too, since a document that is cut is not checked."""
    return MAX_TOKENS.get(mode, options.max_tokens)


def generate(options, prompts, dtype, mode, extra):
    command = [options.slipstream, "generate", "--target", options.target, "--prompts", str(prompts), "--chat", "--json",
               "--max-tokens", str(max_tokens_of(options, mode)), "--dtype", dtype, "--checksums",
               "--logprobs", "2"] + extra
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {' '.join(command)}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()], time.monotonic() - started


def first_difference(reference, answers):
    if len(reference) != len(answers):
        return f"{len(reference)} answers against {len(answers)}"
    for want, got in zip(reference, answers):
        for field in FIELDS:
            if want[field] != got[field]:
                return f"prompt {want['id']}: {field} differs"
    return None


def satisfies(schema, value):
    """Whether a value is as `schema` says, for the keywords that FORMAT uses."""
    if "enum" in schema:
        return value in schema["enum"]
    if schema["type"] == "string":
        return isinstance(value, str) and len(value) <= schema["maxLength"]
    if schema["type"] == "integer":
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    if schema["type"] == "array":
        return (isinstance(value, list) and schema.get("minItems", 0) <= len(value) <= schema["maxItems"] and
                all(satisfies(schema["items"], item) for item in value))
    properties = schema["properties"]
    return isinstance(value, dict) and list(value) == list(properties) and all(satisfies(properties[name], value[name]) for name in value)


def count_documents(answers):
    """How many answers are documents of FORMAT's schema; None when one that was not cut is not."""
    schema = json.loads(FORMAT.read_text())["json_schema"]["schema"]
    whole = [answer["text"] for answer in answers if answer["stop_reason"] != "length"]
    try:
        return len(whole) if all(satisfies(schema, json.loads(text)) for text in whole) else None
    except json.JSONDecodeError:
        return None


def matrix_runs(options):
    """All combinations, or with --quick as few as bring each value once."""
    axes = (options.k, options.concurrency, options.prefill_chunk, options.threads)
    if options.quick:
        cells = [tuple(axis[i % len(axis)] for axis in axes) for i in range(max(len(axis) for axis in axes))]
    else:
        cells = itertools.product(*axes)
    for k, concurrency, chunk, threads in cells:
        yield (f"k={k} c={concurrency} chunk={chunk} t={threads}",
               ["--draft", options.draft, "--k", str(k), "--concurrency", str(concurrency), "--prefill-chunk", str(chunk),
                "--threads", str(threads)], None)


def runs_with_speculation(options):
    if options.matrix:
        yield from matrix_runs(options)
        return
    draft = ["--draft", options.draft, "--prefill-chunk", str(options.prefill_chunk[0]), "--threads", str(options.threads[0])]
    for k in options.k:
        for concurrency in options.concurrency:
            run = draft + ["--k", str(k), "--concurrency", str(concurrency)]
            yield f"k={k} c={concurrency}", run, None
            for name, swaps in SWAPS.items():
                yield f"k={k} c={concurrency} {name}", run + ["--swap-draft", options.swap_draft] + swaps, name


def proposed_nothing(extra, answers):
    """Whether a run that should speculate proposed nothing, so that its answers could not differ."""
    return int(extra[extra.index("--k") + 1]) > 0 and not any(a["accepted"] + a["first_rejections"] for a in answers)


def compare_mode(options, prompts, dtype, mode, table):
    reference, seconds = generate(options, prompts, dtype, mode, MODES[mode] + ["--k", "0", "--concurrency", "1", "--threads", "1"])
    tokens = sum(len(answer["token_ids"]) for answer in reference)
    print(f"{dtype} {mode}: plain decoding, {len(reference)} answers, {tokens} tokens, {seconds:.1f} s", flush=True)
    failed = False
    if mode == "schema":
        documents = count_documents(reference)  # the other runs' answers are equal to these
        print(f"  {documents} whole documents of the schema" if documents
              else "  NO DOCUMENTS OF THE SCHEMA: " + reference[0]["text"])
        failed = not documents
    control, _ = generate(options, prompts, dtype, mode, CONTROLS[mode] + ["--k", "0", "--concurrency", "8", "--threads", "1"])
    if first_difference(reference, control) is None:
        print("  NEGATIVE CONTROL FAILED: other sampling parameters gave the same answers")
        failed = True
    for name, extra, swapping in runs_with_speculation(options):
        answers, seconds = generate(options, prompts, dtype, mode, MODES[mode] + extra)
        difference = first_difference(reference, answers)
        if not difference and proposed_nothing(extra, answers):
            difference = "nothing was proposed"
        accepted = sum(a["accepted"] for a in answers)
        rejections = sum(a["first_rejections"] for a in answers)
        row = {"dtype": dtype, "mode": mode, "run": name, "answers": len(answers), "tokens": tokens,
               "alpha": accepted / max(1, accepted + rejections), "seconds": seconds, "difference": difference}
        if swapping:
            row["without_swap"] = sum(1 for a in answers if a["swaps"] == 0)
            row["swaps"] = sum(a["swaps"] for a in answers) / len(answers)
            row["steps_without"] = max((a["steps"] for a in answers if a["swaps"] == 0), default=0)
            if not difference and row["steps_without"] > MOST_STEPS_WITHOUT_SWAP[swapping]:
                row["difference"] = difference = "a long answer saw no swap"
        table.append(row)
        swaps = (f"  {row['swaps']:.1f} swaps an answer, none in {row['without_swap']} (of {row['steps_without']} steps at most)"
                 if swapping else "")
        print(f"  {name:<{30 if options.matrix else 14}} α {row['alpha']:.3f}  {seconds:6.1f} s  {difference or 'equal'}{swaps}", flush=True)
        failed |= difference is not None
    return failed


def main():
    options = parse_arguments()
    table, failed = [], False
    with tempfile.TemporaryDirectory() as folder:
        prompts = pathlib.Path(folder) / "prompts.jsonl"
        write_prompts(options, prompts)
        if not options.matrix:
            options.swap_draft = options.swap_draft or make_swap_draft(options, prompts, pathlib.Path(folder))
        for dtype in options.dtypes:
            quick = options.quick and not options.matrix
            for mode in [mode for mode in options.modes if not quick or mode in QUICK[dtype]]:
                failed |= compare_mode(options, prompts, dtype, mode, table)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(table, indent=1))
    print(f"{len(table)} runs, {sum(1 for row in table if row['difference'])} different")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
