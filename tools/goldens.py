#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/goldens/{target,tokenizer}.json: what Hugging Face says about the embedded target.

A developer's tool: tests read the files it leaves and need none of its packages. To run it again:

    python3 -m venv hf && hf/bin/pip install torch transformers tokenizers safetensors
    hf/bin/python tools/goldens.py --model checkpoints/demo/target --prompts <folder with {math,sql,code,lang}.jsonl>

target.json     {"logit_ids": [64 ids], "cases": [{"id", "prompt_ids", "logits": [64], "max_logit", "greedy": [32 ids]}]}
                float32 logits of the prompt's last position, and the greedy continuation (32 tokens, end token included,
                going on after it: the test is about the forward pass, not about stopping).
tokenizer.json  {"cases": [{"text", "ids"}], "templated": [{"prompt", "ids"}]}: ids without any added token, special
                spellings parsed; and whole prompts through the chat template.
"""
import argparse
import json
import pathlib

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
        return [json.loads(line) for line, _ in zip(lines, range(PER_KIND))]


def templated(tokenizer, prompt):
    text = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False)
    return tokenizer.encode(text, add_special_tokens=False)


def tokenizer_goldens(model, prompts):
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer
    fast, chat = Tokenizer.from_file(str(model / "tokenizer.json")), AutoTokenizer.from_pretrained(model)
    texts = NASTY + [row[part] for row in prompts for part in ("prompt", "response")]
    return {"cases": [{"text": text, "ids": fast.encode(text, add_special_tokens=False).ids} for text in texts],
            "templated": [{"prompt": row["prompt"], "ids": templated(chat, row["prompt"])} for row in prompts[::10]]}


def target_goldens(model_folder, prompts):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32, attn_implementation="eager").eval()
    vocabulary = model.config.vocab_size
    logit_ids = sorted({(i * 2654435761) % vocabulary for i in range(1, 63)} | {0, 1})[:64]
    cases = []
    with torch.no_grad():
        for row in prompts:
            ids = templated(tokenizer, row["prompt"])
            logits = model(torch.tensor([ids])).logits[0, -1]
            assert logits.dtype == torch.float32
            greedy, cache, step = [], None, torch.tensor([ids])
            for _ in range(GREEDY_TOKENS):
                out = model(step, past_key_values=cache, use_cache=True)
                cache, step = out.past_key_values, out.logits[:, -1:].argmax(-1)
                greedy.append(int(step))
            cases.append({"id": row["id"], "prompt_ids": ids, "logits": [float(f"{logits[i]:.8g}") for i in logit_ids],
                          "max_logit": float(f"{logits.max():.8g}"), "greedy": greedy})
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
    prompts = [row for kind in KINDS for row in rows(arguments.prompts, kind)]
    write(arguments.out / "tokenizer.json", tokenizer_goldens(arguments.model, prompts))
    write(arguments.out / "target.json", target_goldens(arguments.model, prompts))


if __name__ == "__main__":
    main()
