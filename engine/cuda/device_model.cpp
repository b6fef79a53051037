// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_model.h"

namespace slip {
namespace {

using kernels::cuda::Weight;

constexpr std::size_t kBorder = 256;

// Places weights one after the other. `base` null: only counts bytes.
class Arena {
 public:
  explicit Arena(std::byte* base) : base_(base) {}
  template <class T>
  void place(Weight<T>& weight, std::int64_t n) {
    weight.data = base_ == nullptr ? nullptr : reinterpret_cast<const T*>(base_ + used_);
    weight.at = static_cast<std::int64_t>(used_);
    used_ += (static_cast<std::size_t>(n) * sizeof(T) + kBorder - 1) / kBorder * kBorder;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

void place_layer(const ModelConfig& config, Arena& arena, DeviceModel::Layer& layer) {
  const std::int64_t hidden = config.hidden_size, queries = std::int64_t{config.n_heads} * config.head_dim;
  const std::int64_t ffn = device_ffn(config);
  const auto matrix = [&](Weight<std::uint16_t>& weight, std::int64_t n_out, std::int64_t n_in) {
    arena.place(weight, kernels::cuda::packed_weight_elements(n_out, n_in));
  };
  const auto vector_if = [&](bool is_there, Weight<float>& weight, std::int64_t n) {
    if (is_there) arena.place(weight, n);
  };
  arena.place(layer.attention_norm, hidden);
  arena.place(layer.ffn_norm, hidden);
  matrix(layer.qkv, qkv_width(config), hidden);
  matrix(layer.attention_out, hidden, queries);
  matrix(layer.gate_up, 2 * ffn, hidden);
  matrix(layer.down, hidden, ffn);
  vector_if(config.qkv_bias, layer.qkv_bias, qkv_width(config));
  vector_if(config.attention_out_bias, layer.attention_out_bias, hidden);
  vector_if(config.mlp_bias, layer.gate_up_bias, 2 * ffn);
  vector_if(config.mlp_bias, layer.down_bias, hidden);
  vector_if(config.qk_norm, layer.q_norm, config.head_dim);
  vector_if(config.qk_norm, layer.k_norm, config.head_dim);
}

DeviceModel place(const ModelConfig& config, bool tied, Arena& arena) {
  DeviceModel model;
  model.layers.resize(static_cast<std::size_t>(config.n_layers));
  if (!tied) arena.place(model.embedding, std::int64_t{config.vocab_size} * config.hidden_size);
  for (DeviceModel::Layer& layer : model.layers) place_layer(config, arena, layer);
  arena.place(model.final_norm, config.hidden_size);
  arena.place(model.lm_head, kernels::cuda::packed_weight_elements(config.vocab_size, config.hidden_size));
  return model;
}

}  // namespace

std::int64_t qkv_width(const ModelConfig& config) {
  return std::int64_t{config.n_heads + 2 * config.n_kv_heads} * config.head_dim;
}

std::int64_t device_ffn(const ModelConfig& config) {
  constexpr std::int64_t kTile = kernels::cuda::kTileOutputs;
  return (config.intermediate_size + kTile - 1) / kTile * kTile;
}

DeviceModel place_model(const ModelConfig& config, bool tied, std::byte* base) {
  Arena arena(base);
  return place(config, tied, arena);
}

std::size_t device_model_bytes(const ModelConfig& config, bool tied) {
  Arena counting(nullptr);
  place(config, tied, counting);
  return counting.used();
}

}  // namespace slip
