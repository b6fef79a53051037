// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/rope_scaling.h"
#include "common/tensor_view.h"

namespace slip {

// The shape of a LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM or MistralForCausalLM, read from a Hugging Face
// folder's config.json and generation_config.json. Accepts the keys of transformers 4 (`rope_theta`, `rope_scaling`,
// `torch_dtype`) and 5 (`rope_parameters`, `dtype`, `layer_types`). The members after `rope_scaling` state the
// architecture's differences; a forward pass never uses its name.
struct ModelConfig {
  std::string architecture = "LlamaForCausalLM";
  std::int32_t vocab_size = 0;
  std::int32_t hidden_size = 0;
  std::int32_t intermediate_size = 0;
  std::int32_t n_layers = 0;
  std::int32_t n_heads = 0;
  std::int32_t n_kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t max_positions = 0;  // the context; with yarn at least factor · original_max_positions
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  bool qkv_bias = false;            // of q_proj, k_proj and v_proj
  bool attention_out_bias = false;  // of o_proj
  bool mlp_bias = false;            // of gate_proj, up_proj and down_proj
  bool qk_norm = false;             // an RMS norm of each query and key head, before the rotation
  // [n_layers] the number of positions that a layer attends to, including the row's own; 0: all. Empty: all layers see
  // all.
  std::vector<std::int32_t> windows;
  bool tied_embeddings = false;
  Dtype stored_dtype = Dtype::kBFloat16;
  std::int32_t bos_id = -1;           // -1: none
  std::vector<std::int32_t> eos_ids;  // the union over config.json and generation_config.json
  std::int32_t pad_id = -1;

  // All values that a forward pass's shapes depend on are equal, as they are for the drafts of one DraftRunner.
  bool same_shape(const ModelConfig& other) const;
  std::int64_t parameters() const;
  std::int32_t window(std::int32_t layer) const {
    return windows.empty() ? 0 : windows.at(static_cast<std::size_t>(layer));
  }
  // The config.json key of a feature that a plain Llama lacks (biases, q/k norms, windows, scaled rotation); empty for
  // a plain Llama of any name. Training and inflation support plain Llamas only.
  std::string beyond_plain_llama() const;
};

// Throws Error{kNotFound | kInvalidArgument | kUnsupported} naming the file and the key. A missing folder that looks
// like `org/name` gets the hint to download it first.
ModelConfig load_model_config(const std::filesystem::path& folder);
ModelConfig parse_model_config(const std::string& config_json, const std::string& generation_config_json,
                               const std::string& where);
// A Hugging Face config.json with the keys of both transformers 4 and 5
std::string to_config_json(const ModelConfig& config);

}  // namespace slip
