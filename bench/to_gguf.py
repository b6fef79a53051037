#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a Llama's Hugging Face folder as one GGUF file with bfloat16 matrices, for programs that read only GGUF.

The file has no tokenizer (`no_vocab`): token ids go in and come out. Needs the packages gguf and numpy.
"""
import argparse
import json
import pathlib

import gguf
import numpy as np

LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OTHER_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def read_safetensors(path):
    """Name → array; bfloat16 comes as its 16 bits."""
    types = {"BF16": np.uint16, "F32": np.float32}
    raw = np.memmap(path, dtype=np.uint8, mode="r")
    header_bytes = int(raw[:8].view("<u8")[0])
    header = json.loads(bytes(raw[8:8 + header_bytes]))
    header.pop("__metadata__", None)
    data = raw[8 + header_bytes:]
    for name, entry in header.items():
        if entry["dtype"] not in types:
            raise SystemExit(f"{path}: {name} is {entry['dtype']}; bfloat16 and float32 are understood")
        begin, end = entry["data_offsets"]
        yield name, np.array(data[begin:end]).view(types[entry["dtype"]]).reshape(entry["shape"])


def as_float32(array):
    return (array.astype(np.uint32) << 16).view(np.float32) if array.dtype == np.uint16 else array


def as_bfloat16(array):
    if array.dtype == np.uint16:
        return array
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)  # to nearest, ties to even


def interleaved(array, n_heads):
    """Rows of a head from halves (i, i + d/2), as Hugging Face rotates them, to neighbours (2i, 2i + 1)."""
    rows, columns = array.shape
    return array.reshape(n_heads, 2, rows // n_heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def gguf_name(name):
    stem, suffix = name.rsplit(".", 1)
    if stem in OTHER_NAMES:
        return f"{OTHER_NAMES[stem]}.{suffix}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[part]}.{suffix}"


def add_shape(writer, config):
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(theta)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_tokenizer_model("no_vocab")


def convert(folder, out):
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    if config.get("architectures") != ["LlamaForCausalLM"]:
        raise SystemExit(f"{folder}/config.json: \"architectures\": only LlamaForCausalLM is written")
    writer = gguf.GGUFWriter(str(out), "llama")
    add_shape(writer, config)
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for name, array in read_safetensors(folder / "model.safetensors"):
        if array.ndim == 1:
            writer.add_tensor(gguf_name(name), as_float32(array))
            continue
        array = as_bfloat16(array)
        part = name.split(".")[-2]
        if part in heads:
            array = interleaved(array, heads[part])
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(array).view(np.uint8),
                          raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="folder", required=True, help="Hugging Face folder")
    parser.add_argument("--to", required=True, help="GGUF file to write")
    arguments = parser.parse_args()
    convert(arguments.folder, arguments.to)
