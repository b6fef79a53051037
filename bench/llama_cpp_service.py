# SPDX-License-Identifier: Apache-2.0
"""llama.cpp as an arm of bench/service.py: the same prompts, greedy plain decoding, in this process.

Closed-loop clients are sequences of one batch. Its time excludes HTTP and tokenizing, which favours llama.cpp."""
import pathlib
import tempfile
import time

import llama_cpp as llama
import numpy as np
from tokenizers import Tokenizer

from closed_loop import last_third
from llama_cpp_decoding import Cache, Model, batch_of
from to_gguf import convert

ROOM = 1024  # tokens of a sequence: the embedded target's context


class Sequence:
    """One client's answer that is under way."""

    def __init__(self, index, prompt, most):
        self.index, self.tokens, self.length, self.most = index, [], len(prompt), most
        self.started = time.perf_counter()


class Server:
    """Continuous batching: each step decodes one token of every sequence, and a free sequence reads the next prompt."""

    def __init__(self, model, clients, end):
        self.cache, self.clients, self.end = Cache(model, 0, clients, ROOM), clients, end
        self.n_vocab = model.n_vocab

    def run(self, prompts):
        """prompts: [(token ids, most tokens)]; per prompt (tokens, started, finished), seconds since the call."""
        began, waiting, done, running = time.perf_counter(), list(enumerate(prompts))[::-1], [None] * len(prompts), {}

        def retire():
            for slot in [slot for slot, s in running.items() if s.tokens[-1] == self.end or len(s.tokens) >= s.most]:
                s = running.pop(slot)
                done[s.index] = (s.tokens, s.started - began, time.perf_counter() - began)
                llama.llama_memory_seq_rm(self.cache.memory, slot, -1, -1)

        while waiting or running:
            for slot in range(self.clients):
                if slot not in running and waiting:
                    index, (prompt, most) = waiting.pop()
                    running[slot] = Sequence(index, prompt, most)
                    self._take(running[slot], self._read(slot, prompt))
            retire()  # an answer of one token
            if running:
                self._step([(s.tokens[-1], s.length + len(s.tokens) - 1, slot) for slot, s in running.items()], running)
            retire()
        return done

    def _take(self, sequence, row):
        logits = np.ctypeslib.as_array(llama.llama_get_logits_ith(self.cache.handle, row), shape=(self.n_vocab,))
        sequence.tokens.append(int(np.argmax(logits)))

    def _read(self, slot, prompt):
        """Reads a prompt into a sequence; which row of the last batch has its last token's logits."""
        for first in range(0, len(prompt), self.cache.batch):
            rows = [(token, first + at, slot) for at, token in enumerate(prompt[first:first + self.cache.batch])]
            batch = batch_of(rows, {len(rows) - 1})
            self.cache.decode(batch)
            llama.llama_batch_free(batch)
        return len(rows) - 1

    def _step(self, rows, running):
        batch = batch_of(rows, set(range(len(rows))))
        self.cache.decode(batch)
        for row, (_, _, slot) in enumerate(rows):
            self._take(running[slot], row)
        llama.llama_batch_free(batch)


def speed(done):
    return sum(len(tokens) for tokens, _, _ in done) / (max(end for _, _, end in done) - min(start for _, start, _ in done))


def prompt_ids(tokenizer, request):
    """As the embedded target's chat template renders them."""
    system = f"<|system|>\n{request.system}<|end|>\n" if request.system else ""
    return tokenizer.encode(f"<|bos|>{system}<|user|>\n{request.prompt}<|end|>\n<|assistant|>\n", add_special_tokens=False).ids


def serve(target, requests, clients, threads, first):
    """The arm's figures in bench/service.py's form; `first` as its first_48. The target is the embedded one or a larger copy."""
    tokenizer = Tokenizer.from_file(f"{target}/tokenizer.json")
    prompts = [(prompt_ids(tokenizer, request), request.max_tokens) for request in requests]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.gguf"
        convert(target, path)
        done = Server(Model(path, threads), clients, tokenizer.token_to_id("<|end|>")).run(prompts)
    return {"tokens_per_s": {"whole": speed(done), "first_48": speed(done[:first]), "last_third": speed(last_third(done))},
            "version": f"llama-cpp-python {llama.__version__}"}
