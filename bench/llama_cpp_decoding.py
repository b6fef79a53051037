# SPDX-License-Identifier: Apache-2.0
"""Time llama.cpp as bench/decode times our engine: steps of a shape that leave the cache unchanged, and prompts.

Uses the C interface of the package llama-cpp-python, so the timed part has a single Python call.
"""
import time

import llama_cpp as llama
import numpy as np

CELLS = 256  # llama.cpp rounds a sequence's cache up to so many


@llama.llama_log_callback
def _say_nothing(_level, _text, _data):
    pass


def batch_of(rows, wanted):
    """rows: (token, position, sequence); wanted: which of them give logits."""
    batch = llama.llama_batch_init(len(rows), 0, 1)
    batch.n_tokens = len(rows)
    for i, (token, position, sequence) in enumerate(rows):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, position, 1, sequence
        batch.logits[i] = i in wanted
    return batch


class Model:
    def __init__(self, path, threads):
        llama.llama_log_set(_say_nothing, None)
        llama.llama_backend_init()
        self.threads = threads
        self.handle = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
        if not self.handle:
            raise SystemExit(f"llama.cpp cannot load {path}")
        self.n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.handle))

    def system(self):
        return llama.llama_print_system_info().decode().strip()


class Cache:
    """A context of llama.cpp whose `sequences` sequences hold `context` tokens each."""

    def __init__(self, model, context, sequences, room, batch=512):
        self.model, self.context, self.sequences, self.batch = model, context, sequences, batch
        params = llama.llama_context_default_params()
        cells = (context + room + CELLS - 1) // CELLS * CELLS
        params.n_ctx, params.n_seq_max, params.kv_unified = cells * sequences, sequences, False
        params.n_batch = params.n_ubatch = batch
        params.n_threads = params.n_threads_batch = model.threads
        self.handle = llama.llama_init_from_model(model.handle, params)
        if not self.handle:
            raise SystemExit(f"llama.cpp cannot hold {sequences} sequences of {cells} tokens")
        self.memory = llama.llama_get_memory(self.handle)
        self.read([self.token_at(i) for i in range(context)])
        for sequence in range(1, sequences):
            llama.llama_memory_seq_cp(self.memory, 0, sequence, -1, -1)
        self.batches = {}

    def token_at(self, position):
        return (7919 * (position % 100_000) + 11) % self.model.n_vocab  # cli/simulation/decoding.cpp has the same

    def decode(self, batch):
        if llama.llama_decode(self.handle, batch) != 0:
            raise SystemExit("llama_decode failed")
        llama.llama_synchronize(self.handle)

    def read(self, tokens, first=0):
        """Appends tokens to sequence 0; only the last one's logits."""
        for at in range(0, len(tokens), self.batch):
            rows = [(token, first + at + i, 0) for i, token in enumerate(tokens[at:at + self.batch])]
            batch = batch_of(rows, {len(rows) - 1})
            self.decode(batch)
            llama.llama_batch_free(batch)

    def seconds_of_step(self, layout, n):
        """One step: `n` rows of sequence 0, or one row of each of `n` sequences; all their logits."""
        if (layout, n) not in self.batches:
            rows = ([(self.token_at(self.context + i), self.context + i, 0) for i in range(n)] if layout == "rows" else
                    [((self.token_at(self.context) + s) % self.model.n_vocab, self.context, s) for s in range(n)])
            self.batches[layout, n] = batch_of(rows, set(range(n)))
        start = time.perf_counter()
        self.decode(self.batches[layout, n])
        seconds = time.perf_counter() - start
        for sequence in range(n if layout == "sequences" else 1):
            llama.llama_memory_seq_rm(self.memory, sequence, self.context, -1)
        return seconds

    def seconds_of_prefill(self, n_tokens):
        """REQUIRES: context is 0."""
        tokens = [self.token_at(i) for i in range(n_tokens)]
        llama.llama_memory_clear(self.memory, False)
        start = time.perf_counter()
        self.read(tokens)
        return time.perf_counter() - start

    def continue_greedily(self, prompt, n_tokens):
        """REQUIRES: context is 0."""
        llama.llama_memory_clear(self.memory, False)
        tokens, out = list(prompt), []
        self.read(tokens)
        while True:
            logits = np.ctypeslib.as_array(llama.llama_get_logits_ith(self.handle, -1), shape=(self.model.n_vocab,))
            out.append(int(np.argmax(logits)))
            if len(out) == n_tokens:
                return out
            self.read([out[-1]], first=len(prompt) + len(out) - 1)
