#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/goldens/{target,tokenizer}.json: what Hugging Face says about the embedded target.

A developer's tool: tests read the files it leaves and need none of its packages. To run it again:

    python3 -m venv hf && hf/bin/pip install torch transformers tokenizers safetensors
    hf/bin/python tools/goldens.py --model checkpoints/demo/target --prompts <folder with {math,sql,code,lang}.jsonl>

Our own prompts stand in the files as they are. Rows of the prompt folder are not copied: they are named, and their token ids
are given by count and hash (64-bit FNV-1a over the ids as little-endian int32, 16 hex digits), so that a test that has the
folder can check both its tokenizer and its model on them.

target.json     {"logit_ids": [64], "cases": [{"prompt_ids": [..] | "kind", "row", "n_ids", "ids_hash",
                                               "logits": [64], "max_logit", "greedy": [32]}]}
                float32 logits of the templated prompt's last position, and the greedy continuation (32 tokens; it goes on
                after the end token: the test is about the forward pass, not about stopping).
tokenizer.json  {"texts": [{"text", "ids"}], "templated": [{"prompt", "ids"}],
                 "rows": [{"kind", "row", "part": "prompt" | "response" | "templated", "n_ids", "ids_hash"}]}
                ids without any added token, special spellings parsed; "templated" went through the chat template.
"""
import argparse
import json
import pathlib
import struct

import demo_prompts

KINDS = ["math", "sql", "code", "lang"]
PER_KIND = 50
GREEDY_TOKENS = 32
NASTY = [
    "", " ", "  ", "   x", "\n", "\r\n", "\r\n\r\n  \t\n", "a\r\nb\rc\nd", "\t\tif x:\n\t\t\treturn  1   \n", " leading", "trailing ",
    "Don't we'll I'VE she'd they're 'tis 'S", "0", "12", "123", "1234", "12345678901234567890", "3.14159, 1e-9, 0x1F, 1,000,000", "٣٤٥ ४५६ ½ ²",
    "😀", "👩‍👩‍👧‍👦 family", "🇩🇪🇫🇷", "👍🏽👍🏿", "日本語のテキスト。", "中文字符，没有空格", "한국어 문장입니다", "ไทย ภาษา", "العربية من اليمين", "עברית",
    "Ελληνικά Кириллица", "naïve café Ångström Straße ﬁ", "e\u0301 o\u0308 n\u0303 a\u030a\u0327", "\u0301start", "zero\u200bwidth\u200djoin", "nbsp\u00a0thin\u2009ideographic\u3000end",
    "\ufeffBOM", "\ufffd replacement", "\u0000nul", "\u0001\u001f\u007f\u0085\u2028\u2029", "x\U0010ffffy", "\ue000private", "ÿþ\u00ff\u00fe",
    "<|end|>", "a<|user|>b", "<|end|", "<|END|>", "<|bos|><|user|>\nhi<|end|>\n<|assistant|>\n", "<|unknown|>", "< |end|>",
    "!!!???...", "((([[[{{{", "->=>::==!=", "# comment\n\n\n\n", "--- *** ___", "a_b_c__d", "camelCaseWord HTTPServer2Go", "http://example.org/a?b=c&d=%20#x",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", " " * 61, "\n" * 17, "ab " * 40, "😀" * 9, "\t \t \t", "  \n  x", "x  \n\n  y", "word\u2019s \u201cquoted\u201d \u2014 dash",
]


def rows(folder, kind):
    with open(folder / f"{kind}.jsonl", encoding="utf-8") as lines:
        return [dict(json.loads(line), kind=kind) for line, _ in zip(lines, range(PER_KIND))]


def own_prompts():
    return sorted({prompt for _, _, prompt in demo_prompts.stream(per_topic=10)})


def hashed(ids):
    state = 0xCBF29CE484222325
    for byte in struct.pack(f"<{len(ids)}i", *ids):
        state = ((state ^ byte) * 0x100000001B3) % 2**64
    return {"n_ids": len(ids), "ids_hash": f"{state:016x}"}


def templated(tokenizer, prompt):
    text = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False)
    return tokenizer.encode(text, add_special_tokens=False)


def tokenizer_goldens(model, prompt_rows):
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer
    fast, chat = Tokenizer.from_file(str(model / "tokenizer.json")), AutoTokenizer.from_pretrained(model)

    def encode(text):
        return fast.encode(text, add_special_tokens=False).ids

    def row_ids(row):
        yield "prompt", encode(row["prompt"])
        yield "response", encode(row["response"])
        yield "templated", templated(chat, row["prompt"])
    return {"texts": [{"text": text, "ids": encode(text)} for text in NASTY + own_prompts()],
            "templated": [{"prompt": prompt, "ids": templated(chat, prompt)} for prompt in own_prompts()],
            "rows": [{"kind": row["kind"], "row": row["id"], "part": part, **hashed(ids)}
                     for row in prompt_rows for part, ids in row_ids(row)]}


def forward_case(model, ids, logit_ids):
    import torch
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1]
        assert logits.dtype == torch.float32
        greedy, cache, step = [], None, torch.tensor([ids])
        for _ in range(GREEDY_TOKENS):
            out = model(step, past_key_values=cache, use_cache=True)
            cache, step = out.past_key_values, out.logits[:, -1:].argmax(-1)
            greedy.append(int(step))
    return {"logits": [float(f"{logits[i]:.8g}") for i in logit_ids], "max_logit": float(f"{logits.max():.8g}"), "greedy": greedy}


def target_goldens(model_folder, prompt_rows):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32, attn_implementation="eager").eval()
    logit_ids = sorted({(i * 2654435761) % model.config.vocab_size for i in range(1, 63)} | {0, 1})[:64]
    cases = []
    for prompt in own_prompts():
        ids = templated(tokenizer, prompt)
        cases.append({"prompt_ids": ids, **forward_case(model, ids, logit_ids)})
    for row in prompt_rows:
        ids = templated(tokenizer, row["prompt"])
        cases.append({"kind": row["kind"], "row": row["id"], **hashed(ids), **forward_case(model, ids, logit_ids)})
    return {"logit_ids": logit_ids, "cases": cases}


def write(path, content):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(content, out, ensure_ascii=True, separators=(",", ":"))
        out.write("\n")
    print(f"{path}: {path.stat().st_size} bytes")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", type=pathlib.Path, required=True)
    options.add_argument("--prompts", type=pathlib.Path, required=True)
    options.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens")
    arguments = options.parse_args()
    prompt_rows = [row for kind in KINDS for row in rows(arguments.prompts, kind)]
    write(arguments.out / "tokenizer.json", tokenizer_goldens(arguments.model, prompt_rows))
    write(arguments.out / "target.json", target_goldens(arguments.model, prompt_rows))


if __name__ == "__main__":
    main()
