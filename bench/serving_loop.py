#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the serving loop: chats whose turns begin alike, more clients than the KV cache has room for, and a long prompt that
is read beside running answers.

    python3 bench/serving_loop.py --target T160 --prompts-root DIR --json OUT.json

DIR is that of bench/service.py, and the target's context has at least 8,192 tokens (`build/bench/inflate --positions 8192`).
No draft learns. Parts, of which --parts chooses some:
  turns   chats of eight turns with a shared system prompt, one client. The time to the first token of each turn, with the prefix
          cache, without it, and with it under plain decoding, which should find as many tokens in it.
  small   --clients clients that never pause. A quarter of the cache that would be needed if each request reserved its longest
          prompt and answer, beside the whole.
  long    four clients that stream long answers, and beside them prompts of --long-words words or the same text in pieces, as
          short prompts. The gaps between the pieces of running answers while such prompts are read; also where a step may take
          as long as its chunk of a prompt needs (engine.prefill_ms = 0).
Greedy answers are compared between the arms of a part. Exit status 1: some differ."""
import argparse
import contextlib
import dataclasses
import http.client
import itertools
import json
import pathlib
import random
import re
import statistics
import sys
import tempfile
import threading
import time

import closed_loop
import service

PARTS = ("turns", "small", "long")
TURNS, BLOCKS, STREAMING = 8, 4, 4
MAX_TOKENS = {"turns": 32, "small": 96, "long": 256}
WITHOUT_PREFIXES = "[engine]\nprefix_cache = 0\n"
PIECE_WORDS = 60  # of a short prompt beside running answers


@dataclasses.dataclass(frozen=True)
class Stream:
    """An answer as its client saw it."""
    started: float
    pieces: list  # when each came, in seconds of time.monotonic()
    text: str

    @property
    def ttft_ms(self):
        return 1e3 * (self.pieces[0] - self.started)


@contextlib.contextmanager
def answer_to(address, path, body):
    """The response to a POST. ServiceError for any status but 200."""
    connection = http.client.HTTPConnection(*address, timeout=closed_loop.ANSWER_S)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise closed_loop.ServiceError(f"{response.status}: {response.read().decode()}")
        yield response
    finally:
        connection.close()


def chat(address, messages, max_tokens):
    """A response whose lines are the answer's events."""
    body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0, "stream": True, "store": False}
    return answer_to(address, "/v1/chat/completions", body)


def stream(address, messages, max_tokens):
    """A chat's streamed answer. ServiceError for one that fails or has no text."""
    started, pieces, text = time.monotonic(), [], ""
    with chat(address, messages, max_tokens) as lines:
        for line in lines:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[len(b"data: "):])
            if "error" in event:
                raise closed_loop.ServiceError(f"a stream ended with {event['error']}")
            piece = "".join(choice["delta"].get("content") or "" for choice in event["choices"])
            if piece:
                pieces.append(time.monotonic())
                text += piece
    if not pieces:
        raise closed_loop.ServiceError("an answer had no text")
    return Stream(started, pieces, text)


def count_tokens(address, messages):
    """Those of a chat's prompt, its template included."""
    with answer_to(address, "/tokenize", {"messages": messages}) as response:
        return json.loads(response.read())["count"]


def messages_of(prompt):
    return [{"role": "system", "content": closed_loop.SYSTEM_PROMPT}, {"role": "user", "content": prompt}]


def counter(metrics, name):
    """The sum of a counter over its labels."""
    return sum(float(value) for value in re.findall(rf"^slipstream:{name}(?:{{[^}}]*}})? (\S+)$", metrics, re.M))


@contextlib.contextmanager
def services(options, folder, settings):
    """{arm: its Service} for {arm: (arguments, TOML)}, all with the same models; stopped at the end."""
    models = ["--target", options.target, "--draft", options.draft, "--no-learning"]
    running = {}
    try:
        for name, (arguments, text) in settings.items():
            running[name] = closed_loop.Service(options.slipstream, name, folder, models + arguments, text)
        yield running
    finally:
        for one in running.values():
            one.stop()


def draw_prompts(options, n):
    """`n` prompts of all topics in mixed order, without repetition."""
    prompts = [prompt for column in service.read_prompts(options.prompts_root).values() for _, prompt in column]
    if n > len(prompts):
        sys.exit(f"serving_loop: {n} prompts are needed, but --prompts-root has {len(prompts)}")
    return random.Random(options.seed).sample(prompts, n)


def chat_of(address, prompts):
    """The answers to a chat's prompts, each after the turns before it."""
    messages, answers = messages_of("")[:1], []
    for prompt in prompts:
        messages.append({"role": "user", "content": prompt})
        answers.append(stream(address, messages, MAX_TOKENS["turns"]))
        messages.append({"role": "assistant", "content": answers[-1].text})
    return answers


def measure_turns(options, folder):
    prompts = draw_prompts(options, options.chats * TURNS)
    settings = {"cached": ([], ""), "uncached": ([], WITHOUT_PREFIXES), "plain": (["--no-speculation"], "")}
    chats = {name: [] for name in settings}
    with services(options, folder, settings) as arms:
        for i in range(options.chats):
            for name in list(arms) if i % 2 else reversed(arms):
                chats[name].append(chat_of(arms[name].address, prompts[i * TURNS:(i + 1) * TURNS]))
        metrics = {name: arm.metrics() for name, arm in arms.items()}
    return figures_of_turns(chats, metrics)


def figures_of_turns(chats, metrics):
    """`chats`: by arm, the streams of each chat's turns."""
    ttft_ms = {name: [statistics.median(chat[turn].ttft_ms for chat in done) for turn in range(TURNS)] for name, done in chats.items()}
    texts = [[[answer.text for answer in chat] for chat in done] for done in chats.values()]
    hits = {name: counter(text, "prefix_cache_hits_total") / max(1, counter(text, "prompt_tokens_total"))
            for name, text in metrics.items()}
    return {"chats": len(texts[0]), "ttft_ms": ttft_ms, "hit_rate": hits,
            "last_turn_ratio": ttft_ms["cached"][-1] / ttft_ms["uncached"][-1],
            "different": sum(len({tuple(chat) for chat in same}) > 1 for same in zip(*texts, strict=True))}


def measure_small(options, folder):
    n = options.clients * options.rounds
    requests = [closed_loop.Request("all", "all", prompt, closed_loop.SYSTEM_PROMPT, MAX_TOKENS["small"], store=False)
                for prompt in draw_prompts(options, n)]
    with services(options, folder, {"count": ([], "")}) as arms:
        longest = max(count_tokens(arms["count"].address, messages_of(request.prompt)) for request in requests)
    slots = options.clients * (longest + MAX_TOKENS["small"])
    settings = {name: ([], f"[model]\ncache_tokens = {size}\n[engine]\nmax_running = {options.clients}\n")
                for name, size in (("whole", slots), ("quarter", slots // 4))}
    with services(options, folder, settings) as running:
        arms = {name: closed_loop.Arm(name, one, n) for name, one in running.items()}
        for name, first, last in closed_loop.turns(list(arms), n, BLOCKS):
            arms[name].serve(requests, first, last, options.clients)
        preemptions = {name: counter(one.metrics(), "num_preemptions_total") for name, one in running.items()}
    speeds = {name: sum(reply.tokens for reply in arm.replies) / arm.seconds for name, arm in arms.items()}
    return {"clients": options.clients, "requests": n, "cache_tokens": {"whole": slots, "quarter": slots // 4},
            "tokens_per_s": speeds, "ratio": speeds["quarter"] / speeds["whole"], "preemptions": preemptions,
            "different": len(closed_loop.different_answers(arms.values()))}


def gaps_ms(streams, reads):
    """The gaps between the pieces of `streams` in which a prompt was read: `reads` are its (start, end)."""
    return [1e3 * (later - earlier) for one in streams for earlier, later in itertools.pairwise(one.pieces)
            if any(earlier < end and start < later for start, end in reads)]


def in_pieces(words, n):
    """Texts of `n` words each; the rest is left out."""
    return [" ".join(words[i:i + n]) for i in range(0, len(words) - n + 1, n)]


def measure_long(options, folder):
    words = " ".join(draw_prompts(options, 400)).split()
    questions, long_prompts = draw_prompts(options, options.streams), in_pieces(words, options.long_words)
    if not long_prompts:
        sys.exit(f"serving_loop: --long-words {options.long_words}, but the prompts have {len(words)} words")
    # By name: the service, how many clients send prompts beside the answers, and these.
    parts = {"long": ("default", 1, long_prompts), "short": ("default", STREAMING, in_pieces(words, PIECE_WORDS)),
             "whole_chunks": ("whole_chunks", 1, long_prompts)}
    answers, reads = {}, {}
    settings = {"default": ([], WITHOUT_PREFIXES), "whole_chunks": ([], WITHOUT_PREFIXES + "prefill_ms = 0\n")}
    with services(options, folder, settings) as arms:
        prompt_tokens = count_tokens(arms["default"].address, messages_of(long_prompts[0]))
        for name, (arm, clients, prompts) in parts.items():
            answers[name], reads[name] = beside(arms[arm].address, questions, prompts, clients)
    return figures_of_long(prompt_tokens, answers, reads)


def beside(address, questions, prompts, clients):
    """(the streams of the questions, the (start, end) of prompts read meanwhile): STREAMING clients ask, and `clients` send prompts
    that want one token, all without pause."""
    streams, reads, failures = [None] * len(questions), [], []
    waiting, more, done = iter(enumerate(questions)), itertools.cycle(prompts), threading.Event()
    lock = threading.Lock()

    def ask():
        while True:
            with lock:
                index, question = next(waiting, (None, None))
            if question is None or failures:
                return
            streams[index] = stream(address, messages_of(question), MAX_TOKENS["long"])

    def disturb():
        while not done.is_set() and not failures:
            with lock:
                prompt = next(more)
            started = time.monotonic()
            with chat(address, messages_of(prompt), 1) as response:
                response.read()
            reads.append((started, time.monotonic()))

    def run(work):
        try:
            work()
        except Exception as error:
            failures.append(error)

    asking = [threading.Thread(target=run, args=(ask,), daemon=True) for _ in range(STREAMING)]
    disturbing = [threading.Thread(target=run, args=(disturb,), daemon=True) for _ in range(clients)]
    for thread in asking + disturbing:
        thread.start()
    for thread in asking:
        thread.join()
    done.set()
    for thread in disturbing:
        thread.join()
    if failures:
        raise failures[0]
    return streams, reads


def figures_of_long(prompt_tokens, answers, reads):
    """`answers` and `reads`: by part, as beside() returns them."""
    parts = {}
    for name, streams in answers.items():
        gaps = gaps_ms(streams, reads[name])
        parts[name] = {"p50_ms": closed_loop.percentile(gaps, 0.5), "p99_ms": closed_loop.percentile(gaps, 0.99), "gaps": len(gaps),
                       "read_ms": 1e3 * statistics.fmean(end - start for start, end in reads[name])}
    texts = [[one.text for one in streams] for streams in answers.values()]
    return {"long_prompt_tokens": prompt_tokens, **parts, "p99_ratio": parts["long"]["p99_ms"] / parts["short"]["p99_ms"],
            "different": sum(len(set(same)) > 1 for same in zip(*texts, strict=True))}


def print_table(result):
    if "turns" in result:
        part = result["turns"]
        for name, times in part["ttft_ms"].items():
            print(f"turns: {name:<9} first token after " + " ".join(f"{ms:4.0f}" for ms in times)
                  + f" ms, {part['hit_rate'][name]:.3f} of the prompts' tokens were cached")
        print(f"turns: the last turn's first token takes {part['last_turn_ratio']:.2f} x the time without the cache")
    if "small" in result:
        part = result["small"]
        speeds = part["tokens_per_s"]
        print(f"small: {speeds['quarter']:.0f} tokens/s in a quarter of the cache, {speeds['whole']:.0f} in the whole: "
              f"{part['ratio']:.2f} x, {part['preemptions']['quarter']:.0f} preemptions")
    if "long" in result:
        part = result["long"]
        for name in ("long", "short", "whole_chunks"):
            found = part[name]
            print(f"long: {name:<12} gaps p50 {found['p50_ms']:.0f}, p99 {found['p99_ms']:.0f} ms, a prompt is read in "
                  f"{found['read_ms']:.0f} ms")
        print(f"long: p99 {part['p99_ratio']:.2f} x beside prompts of {part['long_prompt_tokens']} tokens")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    service.add_arguments(parser)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {','.join(PARTS)} (default: all)")
    parser.add_argument("--chats", type=int, default=6, help="of the part `turns`")
    parser.add_argument("--clients", type=int, default=64, help="of the part `small`")
    parser.add_argument("--rounds", type=int, default=3, help="requests of each of these clients")
    parser.add_argument("--streams", type=int, default=24, help="answers of the part `long`")
    parser.add_argument("--long-words", type=int, default=1600, help="of a long prompt")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of prompts")
    parser.add_argument("--json", help="write everything into this file; -: print it instead of the table, for bench/record.py")
    options = parser.parse_args()
    parts = options.parts.split(",")
    if not set(parts) <= set(PARTS):
        parser.error(f"--parts: {options.parts} is not among {','.join(PARTS)}")
    result = {"benchmark": "serving_loop", "seed": options.seed}
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            result[part] = {"turns": measure_turns, "small": measure_small, "long": measure_long}[part](options, pathlib.Path(folder))
            print(f"{part}: done", file=sys.stderr, flush=True)
    closed_loop.report(result, options.json, print_table)
    different = sum(result[part]["different"] for part in parts)
    if different:
        sys.exit(f"serving_loop: {different} answers differ between the arms")


if __name__ == "__main__":
    closed_loop.run("serving_loop", main)
