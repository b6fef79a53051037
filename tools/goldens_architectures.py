#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/goldens/architectures.json: what Hugging Face says about small models of every architecture we serve.

A developer's tool, like goldens.py: the test reads the file it leaves and needs none of its packages.

    python3 -m venv hf && hf/bin/pip install torch transformers
    hf/bin/python tools/goldens_architectures.py

The weights are not stored. Element i of tensor `name` is a multiple of 1/128 that both sides compute:

    k = SplitMix64(FNV-1a-64(name) + i · 0x9e3779b97f4a7c15) >> 57                  0 … 127
    value = (k − 64) / 128 · scale + offset      norms: scale 1, offset 1; biases 1, 0; embeddings 2, 0; other matrices ½, 0

so float32, bfloat16 and float16 hold it exactly, and `stored` only says which of them the test writes.

{"cases": [{"name", "stored": "F32" | "BF16" | "F16", "config": {...}, "prompt": [ids], "greedy": [ids],
            "logits": {"<row>": [vocab]}}]}
Rows count from the prompt's first token over prompt and greedy answer; float32, eager attention, no cache.
"""
import json
import pathlib

import numpy
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

GREEDY_TOKENS = 24
PROMPT_TOKENS = 45
LEAST_MARGIN = 2e-3  # share of the largest |logit|: a greedy token that leads by less is no test of equality
CONFIGS = {"llama": LlamaConfig, "mistral": MistralConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}
SHAPE = dict(vocab_size=96, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=None)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)


def case(name, stored="F32", keys=5, rope=None, **changes):
    """`rope`: rope_parameters but for the theta; `keys`: whose transformers' config keys the file has."""
    return dict(name=name, stored=stored, keys=keys, rope=rope or dict(rope_type="default"), changes=changes)


CASES = [
    case("llama_every_head_its_own_keys", num_key_value_heads=4),
    case("llama_grouped", stored="BF16"),
    case("llama_one_key_head_tied", num_key_value_heads=1, tie_word_embeddings=True),
    case("llama_wide_heads", stored="F16", head_dim=24),
    case("llama_narrow_heads_three_layers", head_dim=6, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=3),
    case("llama_attention_bias", attention_bias=True),
    case("llama_mlp_bias_tied", mlp_bias=True, tie_word_embeddings=True),
    case("llama_both_biases", stored="BF16", keys=4, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5),
    case("llama_theta", keys=4, theta=500000.0, head_dim=16),
    case("llama_linear", rope=dict(rope_type="linear", factor=4.0)),
    case("llama_linear_old_keys", keys=4, rope=dict(rope_type="linear", factor=2.5)),
    case("llama_llama3", rope=LLAMA3, head_dim=32, theta=500000.0),
    case("llama_llama3_old_keys_tied", keys=4, rope=dict(LLAMA3, factor=32.0), head_dim=32, tie_word_embeddings=True),
    case("llama_yarn", rope=YARN, head_dim=32),
    case("llama_yarn_all_given", rope=dict(YARN, attention_factor=1.3, beta_fast=8.0, beta_slow=0.5), head_dim=32),
    case("llama_yarn_mscale_unrounded", rope=dict(YARN, mscale=0.707, mscale_all_dim=1.0, truncate=False), head_dim=32),
    case("qwen2", num_key_value_heads=2),
    case("qwen2_one_key_head_tied", stored="BF16", keys=4, num_key_value_heads=1, tie_word_embeddings=True),
    case("qwen2_yarn_old_keys", keys=4, rope=YARN, theta=1000000.0),
    case("qwen2_window", use_sliding_window=True, sliding_window=8, max_window_layers=0),
    case("qwen2_window_in_the_last_layer_old_keys", keys=4, use_sliding_window=True, sliding_window=5, max_window_layers=1),
    case("qwen2_window_unused", stored="F16", use_sliding_window=False, sliding_window=4, max_window_layers=0),
    case("qwen3", head_dim=16),
    case("qwen3_bias_tied", stored="BF16", keys=4, head_dim=32, attention_bias=True, tie_word_embeddings=True),
    case("qwen3_wide_heads_every_head_its_own_keys", head_dim=20, num_key_value_heads=4, theta=1000000.0),
    case("qwen3_mixed_layers", head_dim=16, num_hidden_layers=3, use_sliding_window=True, sliding_window=7,
         layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    case("qwen3_window_yarn", head_dim=16, rope=YARN, use_sliding_window=True, sliding_window=40, max_window_layers=0),
    case("mistral", sliding_window=None, head_dim=16),
    case("mistral_window", stored="BF16", sliding_window=16),
    case("mistral_window_of_one", sliding_window=1, num_key_value_heads=4),
    case("mistral_window_longer_than_a_block_old_keys", keys=4, sliding_window=33, head_dim=20, rope=dict(rope_type="linear", factor=2.0)),
    case("mistral_window_beyond_the_text_tied", sliding_window=4096, num_key_value_heads=1, tie_word_embeddings=True),
]


def make_config(case):
    family = case["name"].split("_")[0]
    changes = dict(case["changes"])
    rope = dict(case["rope"], rope_theta=changes.pop("theta", 10000.0))
    config = CONFIGS[family](**dict(SHAPE, **changes), rope_parameters=rope)
    config._attn_implementation = "eager"
    return config


def as_of_version_four(document, family):
    rope = document.pop("rope_parameters")
    document["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    document["rope_scaling"] = None if kind == "default" else dict(rope, **{"rope_type" if kind == "llama3" else "type": kind})
    document["torch_dtype"] = document.pop("dtype", None) or "float32"
    document.pop("layer_types", None)
    return document


def config_json(case, model):
    document = json.loads(model.config.to_json_string(use_diff=True))
    document["architectures"] = [type(model).__name__]
    document["dtype"] = "float32"
    document.pop("transformers_version", None)
    return as_of_version_four(document, case["name"]) if case["keys"] == 4 else document


def fnv1a(text):
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = ((state ^ byte) * 0x100000001B3) % 2**64
    return state


def values(name, shape):
    golden = numpy.uint64(0x9E3779B97F4A7C15)
    with numpy.errstate(over="ignore"):
        z = numpy.uint64(fnv1a(name)) + numpy.arange(int(numpy.prod(shape)), dtype=numpy.uint64) * golden + golden
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z = z ^ (z >> numpy.uint64(31))
    unit = ((z >> numpy.uint64(57)).astype(numpy.float64) - 64) / 128
    if name.endswith("norm.weight"):
        unit = unit + 1
    elif name.endswith("embed_tokens.weight"):
        unit = unit * 2
    elif not name.endswith(".bias"):
        unit = unit / 2
    return torch.from_numpy(unit.astype(numpy.float32).reshape(shape))


def make_model(case):
    model = AutoModelForCausalLM.from_config(make_config(case), dtype=torch.float32).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # a tied head is not named twice
            parameter.copy_(values(name, parameter.shape))
    return model


def logits_of(model, ids):
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    assert logits.dtype == torch.float32
    return logits


def answer(model, prompt):
    """The greedy tokens and all rows' logits; None where a token won too narrowly."""
    ids = list(prompt)
    for _ in range(GREEDY_TOKENS):
        last = logits_of(model, ids)[-1]
        best, second = last.topk(2).values
        if best - second < LEAST_MARGIN * last.abs().max():
            return None
        ids.append(int(last.argmax()))
    return ids[len(prompt):], logits_of(model, ids)


def golden(case):
    model = make_model(case)
    for seed in range(1000):
        prompt = torch.randint(3, SHAPE["vocab_size"], (PROMPT_TOKENS,), generator=torch.Generator().manual_seed(seed)).tolist()
        found = answer(model, prompt)
        if found:
            break
    greedy, logits = found
    rows = [0, PROMPT_TOKENS // 2, PROMPT_TOKENS - 1, PROMPT_TOKENS + GREEDY_TOKENS - 2]
    return {"name": case["name"], "stored": case["stored"], "config": config_json(case, model), "prompt": prompt, "greedy": greedy,
            "logits": {str(row): [float(f"{value:.7g}") for value in logits[row]] for row in rows}}


def main():
    path = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "architectures.json"
    cases = [golden(case) for case in CASES]
    path.write_text("{\"cases\":[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]}\n", encoding="utf-8")
    print(f"{path}: {len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
