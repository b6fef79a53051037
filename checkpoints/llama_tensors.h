// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoints/model_config.h"
#include "checkpoints/safetensors.h"

namespace slip {

// Hugging Face's tensor names of Llama and its relatives (Qwen2, Qwen3, Mistral). For example, layer_tensor(3,
// "self_attn.q_proj") is "model.layers.3.self_attn.q_proj.weight"; layer_bias() gives the ".bias" beside it.
inline constexpr const char* kEmbeddingTensor = "model.embed_tokens.weight";
inline constexpr const char* kFinalNormTensor = "model.norm.weight";
inline constexpr const char* kLmHeadTensor = "lm_head.weight";
std::string layer_tensor(std::int32_t layer, const std::string& part);
std::string layer_bias(std::int32_t layer, const std::string& part);

// Name → shape of every tensor of a checkpoint with this configuration: [out, in] for matrices, [n] for norms and
// biases. Without lm_head when the embeddings are tied.
std::map<std::string, std::vector<std::int64_t>> llama_tensor_shapes(const ModelConfig& config);

// Error{kDataLoss} naming the tensor when one is missing, has another shape, or would be ignored by this model. `where`
// is the file's name.
void check_llama_tensors(const TensorMap& tensors, const ModelConfig& config, const std::string& where);

}  // namespace slip
