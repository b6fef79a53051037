#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Hugging Face's `tokenizers` and Google's `sentencepiece` say about texts, for the tokenizer's tests.

A developer's tool: tests read the files it leaves and need none of its packages. To run it again:

    python3 -m venv ref && ref/bin/pip install tokenizers sentencepiece
    ref/bin/python tools/goldens_tokenizers.py small               writes tests/data/tokenizers
    ref/bin/python tools/goldens_tokenizers.py compare --data <folder with dev/*.jsonl> --out <folder> <tokenizer file>...

small    makes small tokenizers, one for each kind of component, from the texts below: NAME/tokenizer.json (or tokenizer.model)
         and NAME/cases.json.
compare  writes OUT/NAME/{tokenizer.json | tokenizer.model, cases.json} for real tokenizer files and thousands of texts; run
         SLIPSTREAM_TOKENIZER_CASES=OUT build/text_test --gtest_filter='TokenizerReferenceTest.*' then.

cases.json   [{"text", "ids": without special tokens around, "full": with them, "decoded": of ids}]
"""
import argparse
import io
import json
import pathlib
import random
import shutil
import tempfile

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import demo_prompts
import goldens

ROOT = pathlib.Path(__file__).resolve().parent.parent
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and then the dog jumps over the fox.", "Der schnelle Fuchs springt über den faulen Hund; Öl, Äpfel.",
    "El zorro rápido salta sobre el perro perezoso. ¿Qué? ¡Sí!", "Быстрая лиса прыгает через ленивую собаку.", "敏捷的狐狸跳过了懒狗。狐狸很快。",
    "すばやい狐がのろまな犬を飛び越える。", "빠른 여우가 게으른 개를 뛰어넘는다.", "الثعلب السريع يقفز فوق الكلب الكسول.", "तेज़ लोमड़ी आलसी कुत्ते के ऊपर कूदती है।",
    "Η γρήγορη αλεπού πηδά πάνω από το τεμπέλικο σκυλί. ΟΔΟΣ", "สุนัขจิ้งจอกกระโดดข้ามสุนัขขี้เกียจ", "Con cáo nhanh nhẹn nhảy qua con chó lười.", "İstanbul'da ışık ILIK",
    "def fox(dog):\n    return dog + 1  # jumps\n", "for (int i = 0; i < 10; ++i) { sum += x[i] * 3.14; }", "SELECT name, count(*) FROM dogs WHERE age >= 12 GROUP BY 1;",
]
SPECIAL = [
    "<s>", "a<s>b</s> c", "x <mask> y", "x  <mask>  y", "<mask><mask>", " <mask>", "word single words single-minded single", "SINGLE Single", "é single\u0301", "left  <l>  right <r>  more",
    "<l><r> <l> <r>", "<r>   <l>", "NormTok normtok", "a normtok", "Ｎormtok", "\u3000<l>\u3000", "[A][A ][A", "<0x41>", "<0xE6>", "▁", "▁▁a", " ▁ ", "a▁b", "-a-b--c-", "_a__b_", "a.b..c.", "1,2,,3",
    "a-1_b.2,c", "...", "--", "ａｂｃ ①②③ ﷺ ﬀ", "Å Å Å", "각 각", "q\u0323\u0307 q\u0307\u0323", "x²y³ ½ Ⅷ ٣", "\u200dab\u200c c", "a\u180eb", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ «»“”—", "  two  spaces  ",
]
RANDOM_PARTS = (list(" \t\n\r\u00a0\u2003\u3000\u200b\u0085\u000b\u0000\u0007\u001b\u007f\ufeff\u2028") + ["  ", "    ", "\r\n"] +
                list("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789.,;:!?'\"()[]{}<>/\\|@#$%^&*-_=+~`") + ["the", "ing", " of", "'s", "'LL"] +
                list("éüñßÅøŁđαβΩжЯюअआ日本語中文한국ไทยعربيעבר") + ["\u0301", "\u0308", "\u0327", "\u20dd", "\u3099", "\u0345"] +
                ["😀", "👍🏽", "👩‍👩‍👧", "🇩🇪", "☃", "\ufe0f", "\u200d", "𝔘𝔫𝔦", "𒀀", "\U0010ffff", "\ue000", "ﷺ", "ﬁ", "①", "½", "Ⅷ", "İ", "ſ", "ς", "Σ"] +
                ["▁", "<0x0A>", "<s>", "</s>", "<unk>", "<|endoftext|>", "<|end|>", "<|", "Ġ", "Ċ"])


def nasty_texts():
    return goldens.NASTY + SENTENCES + SPECIAL


def random_texts(n, seed):
    draw = random.Random(seed)
    return ["".join(draw.choice(RANDOM_PARTS) for _ in range(draw.randrange(1, 40))) for _ in range(n)]


def data_texts(folder):
    for kind in goldens.KINDS:
        with open(folder / "dev" / f"{kind}.jsonl", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                yield row["prompt"]
                yield row["response"]


# ---- the references ------------------------------------------------------------------------------------------------

def hugging_face_cases(tokenizer, texts):
    cases = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append({"text": text, "ids": ids, "full": tokenizer.encode(text).ids, "decoded": tokenizer.decode(ids)})
    return cases


def sentence_piece_cases(processor, texts):
    """Control symbols are never read from text here, so the texts spell none."""
    controls = [processor.id_to_piece(i) for i in range(processor.get_piece_size()) if processor.is_control(i)]
    cases = []
    for text in texts:
        if any(symbol in text for symbol in controls):
            continue
        ids = processor.encode(text)
        cases.append({"text": text, "ids": ids, "full": [processor.bos_id(), *ids], "decoded": processor.decode(ids)})
    return cases


def write_cases(folder, cases):
    (folder / "cases.json").write_text("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases) + "\n]\n",
                                       encoding="utf-8")


# ---- small tokenizers, one for each kind of component ---------------------------------------------------------------

BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
LLAMA_DECODER = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def split(pattern, behavior, invert=False):
    return pre_tokenizers.Split(pattern, behavior, invert)


def trained(pre_tokenizer, decoder, normalizer=None, specials=(), alphabet=None, size=400, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials), show_progress=False, limit_alphabet=1000 if alphabet is None else 120,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet is None else alphabet)
    tokenizer.train_from_iterator(SENTENCES * 4, trainer)
    return tokenizer


def byte_level(*steps, normalizer=None, **model):
    steps = pre_tokenizers.Sequence([*steps, BYTE_LEVEL]) if steps else BYTE_LEVEL
    return trained(steps, decoders.ByteLevel(), normalizer, **model)


def llama3():
    tokenizer = byte_level(split(Regex(LLAMA3), "isolated"), ignore_merges=True)
    tokenizer.add_special_tokens(["<s>", "</s>"])
    template = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B:1", [("<s>", tokenizer.token_to_id("<s>")), ("</s>", tokenizer.token_to_id("</s>"))])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    # Leaves out every other merge, so that the pieces of these merges are found only as whole pieces.
    data = json.loads(tokenizer.to_str())
    merges = data["model"]["merges"]
    data["model"]["merges"] = [merge for i, merge in enumerate(merges) if i % 2 == 0 or i < 60]
    return Tokenizer.from_str(json.dumps(data))


def byte_fallback():
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = trained(None, LLAMA_DECODER, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), specials,
                        [], 700, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    data["post_processor"] = json.loads(processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 1)]).__getstate__())
    return Tokenizer.from_str(json.dumps(data))


def added_tokens():
    tokenizer = byte_level(normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True), "</s>"])
    tokenizer.add_tokens([AddedToken("single", single_word=True, normalized=False), AddedToken("<l>", lstrip=True, normalized=False),
                          AddedToken("<r>", rstrip=True, normalized=False), AddedToken("NormTok", normalized=True), AddedToken("[A]", normalized=True, lstrip=True, rstrip=True),
                          AddedToken("[A][A]", normalized=False)])
    return tokenizer


def small_tokenizers():
    isolated = {behavior: pre_tokenizers.Sequence([split(Regex(r"\p{P}"), behavior), BYTE_LEVEL])
                for behavior in ("removed", "merged_with_previous", "merged_with_next", "contiguous")}
    metaspace = decoders.Metaspace(prepend_scheme="first")
    yield "gpt2", trained(pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel())
    yield "prefix_space", trained(pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel())
    yield "llama3", llama3()
    yield "qwen2_nfc", byte_level(split(Regex(QWEN2), "isolated"), normalizer=normalizers.NFC())
    yield "byte_fallback", byte_fallback()
    yield "metaspace_first", trained(pre_tokenizers.Metaspace(prepend_scheme="first"), metaspace, None, ["<unk>", "<s>"], [], 300, unk_token="<unk>")
    yield "metaspace_whole", trained(pre_tokenizers.Metaspace(prepend_scheme="never", split=False), decoders.Metaspace(prepend_scheme="never"), normalizers.NFKD(), ["<unk>"],
                                     [], 300, unk_token="<unk>", fuse_unk=True)
    yield "nfkc_lowercase_strip", byte_level(normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip()]))
    yield "nfd_replace", byte_level(normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Replace(Regex(r"\s+|(?<=\w)o"), "_"),
                                                                     normalizers.Prepend("> ")]))
    for behavior in ("removed", "merged_with_previous", "merged_with_next", "contiguous"):
        yield f"split_{behavior}", trained(isolated[behavior], decoders.ByteLevel(), size=300)
    yield "split_invert", byte_level(split(Regex(r"\w+"), "merged_with_next", True), split("e", "isolated"), split(Regex(r"(?=(\d\d)+\b)"), "isolated"))
    yield "digits_punctuation", byte_level(pre_tokenizers.Digits(True), pre_tokenizers.Punctuation("contiguous"))
    yield "whitespace", trained(pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(False)]), decoders.Fuse(), None, ["<unk>"], [], 300, unk_token="<unk>")
    yield "whitespace_split", byte_level(pre_tokenizers.WhitespaceSplit())
    yield "added_tokens", added_tokens()


# Code points before and after, as in normalization_rule_tsv. The library's own maps are too large for a golden.
CHARACTER_MAP = [("ａ", "a"), ("ｂ", "b"), ("ｃ", "c"), ("①", "1"), ("ﬀ", "ff"), ("½", "1/2"), ("A\u030a", "Å"), ("\t", " "), ("\u3000", " "), ("\u200b", "")]


def small_sentence_piece(**options):
    model = io.BytesIO()
    options = {"normalization_rule_name": "identity", **options}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter([line for text in SENTENCES * 4 for line in text.split("\n")]), model_writer=model,
                                             vocab_size=700, hard_vocab_limit=False, byte_fallback=True, minloglevel=2, **options)
    return model.getvalue()


def mapped_sentence_piece():
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write("".join("\t".join(" ".join(f"{ord(c):X}" for c in side) for side in rule) + "\n" for rule in CHARACTER_MAP))
        rules.flush()
        return small_sentence_piece(model_type="bpe", normalization_rule_name="", normalization_rule_tsv=rules.name)


def write_small(out):
    texts = nasty_texts() + random_texts(40, 1)
    for name, tokenizer in small_tokenizers():
        (out / name).mkdir(parents=True, exist_ok=True)
        (out / name / "tokenizer.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
        write_cases(out / name, hugging_face_cases(tokenizer, texts))
    for name, model in {"sentencepiece_bpe": small_sentence_piece(model_type="bpe", remove_extra_whitespaces=False, split_digits=True),
                        "sentencepiece_unigram": small_sentence_piece(model_type="unigram", user_defined_symbols=["<mask>"]),
                        "sentencepiece_map": mapped_sentence_piece()}.items():
        (out / name).mkdir(parents=True, exist_ok=True)
        (out / name / "tokenizer.model").write_bytes(model)
        write_cases(out / name, sentence_piece_cases(sentencepiece.SentencePieceProcessor(model_proto=model), texts))


def write_comparison(data, out, files):
    texts = nasty_texts() + sorted({prompt for _, _, prompt in demo_prompts.stream(per_topic=10)}) + list(data_texts(data)) + random_texts(3000, 2)
    for file in files:
        name = file.parent.name if file.name in ("tokenizer.json", "tokenizer.model") else file.stem
        (out / name).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, out / name / ("tokenizer" + file.suffix))
        if file.suffix == ".model":
            cases = sentence_piece_cases(sentencepiece.SentencePieceProcessor(model_file=str(file)), texts)
        else:
            cases = hugging_face_cases(Tokenizer.from_file(str(file)), texts)
        write_cases(out / name, cases)
        print(f"{name}: {len(cases)} texts")


def main():
    parser = argparse.ArgumentParser(description="Writes what the reference tokenizers say.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("small").add_argument("--out", type=pathlib.Path, default=ROOT / "tests/data/tokenizers")
    compare = commands.add_parser("compare")
    compare.add_argument("--data", type=pathlib.Path, required=True)
    compare.add_argument("--out", type=pathlib.Path, required=True)
    compare.add_argument("files", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    if options.command == "small":
        write_small(options.out)
    else:
        write_comparison(options.data, options.out, options.files)


if __name__ == "__main__":
    main()
