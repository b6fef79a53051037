// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/tensor_view.h"

namespace slip {

// The shape of a LlamaForCausalLM, read from a Hugging Face folder's config.json and generation_config.json, in the
// keys of transformers 4
// (`rope_theta`, `rope_scaling`, `torch_dtype`) and 5 (`rope_parameters`, `dtype`, `layer_types`).
struct ModelConfig {
  std::string architecture = "LlamaForCausalLM";
  std::int32_t vocab_size = 0;
  std::int32_t hidden_size = 0;
  std::int32_t intermediate_size = 0;
  std::int32_t n_layers = 0;
  std::int32_t n_heads = 0;
  std::int32_t n_kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t max_positions = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  bool tied_embeddings = false;
  Dtype stored_dtype = Dtype::kBFloat16;
  std::int32_t bos_id = -1;           // -1: none
  std::vector<std::int32_t> eos_ids;  // the union over config.json and generation_config.json
  std::int32_t pad_id = -1;

  bool same_shape(
      const ModelConfig& other) const;  // what a DraftFamily shares: everything a forward's shapes depend on
  std::int64_t parameters() const;
};

// Throws Error{kNotFound | kInvalidArgument | kUnsupported} naming the file and the key; a folder that does not exist
// and looks like `org/name` gets the hint to download it first.
ModelConfig load_model_config(const std::filesystem::path& folder);
ModelConfig parse_model_config(const std::string& config_json, const std::string& generation_config_json,
                               const std::string& where);
std::string to_config_json(const ModelConfig& config);  // a Hugging Face config.json (both key generations)

}  // namespace slip
