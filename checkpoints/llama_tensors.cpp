// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/llama_tensors.h"

#include <string_view>

#include "common/error.h"

namespace slip {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

[[noreturn]] void disagree(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kDataLoss, where + ": " + what, "config.json and model.safetensors are not of one model");
}

// Old exports store the rotation's frequencies, which follow from the configuration.
bool is_derived(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq");
}

void check_tied_head(const TensorMap& tensors, const std::string& where) {
  if (tensors.at(kLmHeadTensor) == tensors.at(kEmbeddingTensor)) return;
  disagree(where, "lm_head.weight differs from the embedding that config.json ties it to");
}

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

// Adds the tensors that a layer has beyond a plain Llama's.
void add_features(const ModelConfig& config, std::int32_t layer, Shapes& shapes) {
  const std::int64_t hidden = config.hidden_size, ffn = config.intermediate_size;
  if (config.qkv_bias) {
    shapes[layer_bias(layer, "self_attn.q_proj")] = {std::int64_t{config.n_heads} * config.head_dim};
    for (const char* part : {"self_attn.k_proj", "self_attn.v_proj"})
      shapes[layer_bias(layer, part)] = {std::int64_t{config.n_kv_heads} * config.head_dim};
  }
  if (config.attention_out_bias) shapes[layer_bias(layer, "self_attn.o_proj")] = {hidden};
  if (config.mlp_bias) {
    for (const char* part : {"mlp.gate_proj", "mlp.up_proj"}) shapes[layer_bias(layer, part)] = {ffn};
    shapes[layer_bias(layer, "mlp.down_proj")] = {hidden};
  }
  if (config.qk_norm) {
    for (const char* part : {"self_attn.q_norm", "self_attn.k_norm"})
      shapes[layer_tensor(layer, part)] = {config.head_dim};
  }
}

}  // namespace

std::string layer_tensor(std::int32_t layer, const std::string& part) {
  return "model.layers." + std::to_string(layer) + "." + part + ".weight";
}

std::string layer_bias(std::int32_t layer, const std::string& part) {
  return "model.layers." + std::to_string(layer) + "." + part + ".bias";
}

std::map<std::string, std::vector<std::int64_t>> llama_tensor_shapes(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size, ffn = config.intermediate_size, vocabulary = config.vocab_size;
  const std::int64_t queries = std::int64_t{config.n_heads} * config.head_dim;
  const std::int64_t keys = std::int64_t{config.n_kv_heads} * config.head_dim;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  shapes[kEmbeddingTensor] = {vocabulary, hidden};
  shapes[kFinalNormTensor] = {hidden};
  if (!config.tied_embeddings) shapes[kLmHeadTensor] = {vocabulary, hidden};
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
    shapes[layer_tensor(layer, "input_layernorm")] = {hidden};
    shapes[layer_tensor(layer, "self_attn.q_proj")] = {queries, hidden};
    shapes[layer_tensor(layer, "self_attn.k_proj")] = {keys, hidden};
    shapes[layer_tensor(layer, "self_attn.v_proj")] = {keys, hidden};
    shapes[layer_tensor(layer, "self_attn.o_proj")] = {hidden, queries};
    shapes[layer_tensor(layer, "post_attention_layernorm")] = {hidden};
    shapes[layer_tensor(layer, "mlp.gate_proj")] = {ffn, hidden};
    shapes[layer_tensor(layer, "mlp.up_proj")] = {ffn, hidden};
    shapes[layer_tensor(layer, "mlp.down_proj")] = {hidden, ffn};
    add_features(config, layer, shapes);
  }
  return shapes;
}

void check_llama_tensors(const TensorMap& tensors, const ModelConfig& config, const std::string& where) {
  const auto shapes = llama_tensor_shapes(config);
  for (const auto& [name, shape] : shapes) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) disagree(where, "tensor " + name + " is missing");
    const auto& stored = found->second.shape;
    if (stored != shape) {
      disagree(where,
               "tensor " + name + " has shape " + shape_text(stored) + ", config.json says " + shape_text(shape));
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (shapes.contains(name) || is_derived(name)) continue;
    if (name != kLmHeadTensor)
      disagree(where, "tensor " + name + " is not part of the model that config.json describes");
    check_tied_head(tensors, where);
  }
}

}  // namespace slip
