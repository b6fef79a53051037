// SPDX-License-Identifier: Apache-2.0
#include "engine/model/device_weights.h"

#include <array>
#include <cstring>
#include <functional>
#include <utility>

#include "common/error.h"

namespace slip {
namespace {

using kernels::cuda::DeviceQueue;
using kernels::cuda::Weight;

constexpr std::size_t kBorder = 256;

// Gives every weight of a model its place, one behind the other. `base` null: only counts.
class Arena {
 public:
  explicit Arena(std::byte* base) : base_(base) {}
  template <class T>
  void place(Weight<T>& weight, std::int64_t n) {
    weight.data = base_ == nullptr ? nullptr : reinterpret_cast<const T*>(base_ + used_);
    used_ += (static_cast<std::size_t>(n) * sizeof(T) + kBorder - 1) / kBorder * kBorder;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

std::int64_t qkv_width(const ModelConfig& config) {
  return std::int64_t{config.n_heads + 2 * config.n_kv_heads} * config.head_dim;
}

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

DeviceModel place_model(const ModelConfig& config, bool tied, Arena& arena) {
  DeviceModel model;
  model.layers.resize(static_cast<std::size_t>(config.n_layers));
  if (!tied) arena.place(model.embedding, std::int64_t{config.vocab_size} * config.hidden_size);
  for (DeviceModel::Layer& layer : model.layers) place_layer(config, arena, layer);
  arena.place(model.final_norm, config.hidden_size);
  arena.place(model.lm_head, kernels::cuda::packed_weight_elements(config.vocab_size, config.hidden_size));
  return model;
}

std::size_t bytes_of(const ModelConfig& config, bool tied) {
  Arena counting(nullptr);
  place_model(config, tied, counting);
  return counting.used();
}

// Applies to every weight that is there.
template <class Action>
void for_each_weight(DeviceModel& model, const Action& action) {
  const auto some = [&](auto& weight) {
    if (!weight.empty()) action(weight);
  };
  for (DeviceModel::Layer& layer : model.layers) {
    for (Weight<float>* weight : {&layer.attention_norm, &layer.ffn_norm, &layer.qkv_bias, &layer.attention_out_bias,
                                  &layer.gate_up_bias, &layer.down_bias, &layer.q_norm, &layer.k_norm}) {
      some(*weight);
    }
    for (Weight<std::uint16_t>* weight : {&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.down}) some(*weight);
  }
  some(model.embedding);
  some(model.final_norm);
  some(model.lm_head);
}

// Output row `output` of a packed matrix is row source(output) of the original, or zeros where that is negative.
using SourceRow = std::function<std::int64_t(std::int64_t output)>;

SourceRow as_it_is(std::int64_t n_out) {
  return [n_out](std::int64_t output) { return output < n_out ? output : -1; };
}
// Gates and ups, n of each, take turns in tiles of the device's.
struct GateOrUp {
  std::int64_t index;
  bool is_up;
};
GateOrUp gate_or_up(std::int64_t output) {
  constexpr std::int64_t kTile = kernels::cuda::kTileOutputs;
  return {output / (2 * kTile) * kTile + output % kTile, output % (2 * kTile) >= kTile};
}
// From a weight of kernels::gated_parts().
SourceRow gated_rows(std::int64_t n) {
  return [n](std::int64_t output) {
    constexpr std::int64_t kRows = kernels::kGatedRows;
    const auto [index, is_up] = gate_or_up(output);
    return index >= n ? -1 : index / kRows * 2 * kRows + (is_up ? kRows : 0) + index % kRows;
  };
}
// From gates' values, then ups'.
SourceRow gates_then_ups(std::int64_t n) {
  return [n](std::int64_t output) {
    const auto [index, is_up] = gate_or_up(output);
    return index >= n ? -1 : is_up ? n + index : index;
  };
}

// Brings one model's weights into the device's order and sends them there, each from memory of its own.
class Upload {
 public:
  explicit Upload(DeviceQueue& queue) : queue_(queue) {}

  void vector(const Weight<float>& to, const std::vector<float>& values) {
    if (to.empty()) return;
    send(to.data, values.data(), values.size() * sizeof(float));
  }
  void vector(const Weight<float>& to, const std::vector<float>& values, std::int64_t n, const SourceRow& source) {
    if (to.empty()) return;
    std::vector<float> ordered(static_cast<std::size_t>(n), 0.0F);
    for (std::int64_t i = 0; i < n; ++i) {
      if (source(i) >= 0) ordered[static_cast<std::size_t>(i)] = values[static_cast<std::size_t>(source(i))];
    }
    vector(to, ordered);
  }
  // n_in may be greater than the original's, and is then filled up with zeros.
  void matrix(const Weight<std::uint16_t>& to, const kernels::PackedMatrix& from, std::int64_t n_out, std::int64_t n_in,
              const SourceRow& source) {
    std::vector<std::uint16_t> packed(static_cast<std::size_t>(kernels::cuda::packed_weight_elements(n_out, n_in)), 0);
    std::vector<float> row(static_cast<std::size_t>(from.n_in()));
    for (std::int64_t output = 0; output < n_out; ++output) {
      const std::int64_t index = source(output);
      if (index < 0) continue;
      from.copy_row(index, row.data());
      put_row(row, output, n_in, packed);
    }
    send(to.data, packed.data(), packed.size() * sizeof(std::uint16_t));
  }
  // Rows in their own order, each value rounded.
  void table(const Weight<std::uint16_t>& to, const ModelWeights& weights) {
    if (to.empty()) return;
    if (weights.dtype == Dtype::kBFloat16) return send(to.data, weights.embedding.data(), weights.embedding.size());
    std::vector<std::uint16_t> rounded(weights.embedding.size() / sizeof(float));
    for (std::size_t i = 0; i < rounded.size(); ++i) {
      float value = 0;
      std::memcpy(&value, weights.embedding.data() + i * sizeof(float), sizeof value);
      rounded[i] = kernels::cuda::round_to_bf16(value);
    }
    send(to.data, rounded.data(), rounded.size() * sizeof(std::uint16_t));
  }

 private:
  // weight_at() of a row: the same places in each of its tiles of depth.
  static void put_row(const std::vector<float>& row, std::int64_t output, std::int64_t n_in,
                      std::vector<std::uint16_t>& packed) {
    constexpr std::size_t kDepth = kernels::cuda::kTileDepth, kTile = kDepth * kernels::cuda::kTileOutputs;
    std::array<std::size_t, kDepth> place{};
    for (std::size_t k = 0; k < kDepth; ++k) {
      place[k] = static_cast<std::size_t>(kernels::cuda::weight_at(output, static_cast<std::int64_t>(k), n_in));
    }
    for (std::size_t k = 0; k < row.size(); ++k) {
      packed[place[k % kDepth] + k / kDepth * kTile] = kernels::cuda::round_to_bf16(row[k]);
    }
  }
  void send(const void* to, const void* from, std::size_t bytes) {
    queue_.copy_in(const_cast<void*>(to), from, bytes);
    queue_.wait();
  }

  DeviceQueue& queue_;
};

void upload_layer(const ModelConfig& config, const ModelWeights::Layer& from, const DeviceModel::Layer& to,
                  Upload& upload) {
  const std::int64_t hidden = config.hidden_size, queries = std::int64_t{config.n_heads} * config.head_dim;
  const std::int64_t ffn = device_ffn(config);
  upload.vector(to.attention_norm, from.attention_norm);
  upload.vector(to.ffn_norm, from.ffn_norm);
  upload.matrix(to.qkv, from.qkv, qkv_width(config), hidden, as_it_is(qkv_width(config)));
  upload.matrix(to.attention_out, from.attention_out, hidden, queries, as_it_is(hidden));
  upload.matrix(to.gate_up, from.gate_up, 2 * ffn, hidden, gated_rows(config.intermediate_size));
  upload.matrix(to.down, from.down, hidden, ffn, as_it_is(hidden));
  upload.vector(to.qkv_bias, from.qkv_bias);
  upload.vector(to.attention_out_bias, from.attention_out_bias);
  upload.vector(to.gate_up_bias, from.gate_up_bias, 2 * ffn, gates_then_ups(config.intermediate_size));
  upload.vector(to.down_bias, from.down_bias);
  upload.vector(to.q_norm, from.q_norm);
  upload.vector(to.k_norm, from.k_norm);
}

}  // namespace

std::int64_t device_ffn(const ModelConfig& config) {
  constexpr std::int64_t kTile = kernels::cuda::kTileOutputs;
  return (config.intermediate_size + kTile - 1) / kTile * kTile;
}

DeviceWeights::DeviceWeights(std::shared_ptr<DeviceQueue> queue, const ModelWeights& shape, int n_homes)
    : queue_(std::move(queue)),
      config_(shape.config),
      tied_(shape.embedding.empty()),
      home_bytes_(bytes_of(config_, tied_)),
      memory_(*queue_, home_bytes_ * static_cast<std::size_t>(n_homes)),
      live_index_(*queue_, 1),
      n_homes_(n_homes) {
  SLIP_CHECK(n_homes == 1 || n_homes == 2, "weights have one home or two");
  Arena arena(memory_.get());
  live_ = place_model(config_, tied_, arena);
  if (n_homes == 1) return;
  for_each_weight(live_, [&](auto& weight) {
    weight.live = live_index_.get();
    weight.home_stride = static_cast<std::int64_t>(home_bytes_ / sizeof(*weight.data));
  });
  set_live(0);
}

bool DeviceWeights::fits(const ModelWeights& weights) const {
  return weights.config.same_shape(config_) && weights.embedding.empty() == tied_;
}

DeviceModel DeviceWeights::at(int home) const {
  SLIP_CHECK(home >= 0 && home < n_homes_, "a home that is not there");
  Arena arena(memory_.get() + home_bytes_ * static_cast<std::size_t>(home));
  return place_model(config_, tied_, arena);
}

void DeviceWeights::load(const ModelWeights& weights, int home) {
  SLIP_CHECK(fits(weights), "a home takes weights of one shape");
  const DeviceModel model = at(home);
  Upload upload(*queue_);
  upload.table(model.embedding, weights);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    upload_layer(config_, weights.layers[i], model.layers[i], upload);
  }
  upload.vector(model.final_norm, weights.final_norm);
  upload.matrix(model.lm_head, weights.lm_head, config_.vocab_size, config_.hidden_size, as_it_is(config_.vocab_size));
}

void DeviceWeights::set_live(int home) {
  SLIP_CHECK(home >= 0 && home < n_homes_, "a home that is not there");
  if (n_homes_ == 1) return;
  const std::int32_t index = home;
  queue_->copy_in(live_index_.get(), &index, sizeof index);
  queue_->wait();
  live_home_ = home;
}

}  // namespace slip
