// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_image.h"

#include <array>
#include <cstring>
#include <utility>

#include "common/error.h"

namespace slip {
namespace {

using kernels::cuda::DeviceQueue;
using kernels::cuda::Weight;

// Output row `output` of a packed matrix is row source(output) of the original, or zeros where that is negative.
using SourceRow = std::function<std::int64_t(std::int64_t output)>;

SourceRow as_it_is(std::int64_t n_out) {
  return [n_out](std::int64_t output) { return output < n_out ? output : -1; };
}
// Gate and up rows, n of each, alternate in tiles of the device.
struct GateOrUp {
  std::int64_t index;
  bool is_up;
};
GateOrUp gate_or_up(std::int64_t output) {
  constexpr std::int64_t kTile = kernels::cuda::kTileOutputs;
  return {output / (2 * kTile) * kTile + output % kTile, output % (2 * kTile) >= kTile};
}
// For a source weight in the order of kernels::gated_parts().
SourceRow gated_rows(std::int64_t n) {
  return [n](std::int64_t output) {
    constexpr std::int64_t kRows = kernels::kGatedRows;
    const auto [index, is_up] = gate_or_up(output);
    return index >= n ? -1 : index / kRows * 2 * kRows + (is_up ? kRows : 0) + index % kRows;
  };
}
// For source values with all gates first, then all ups.
SourceRow gates_then_ups(std::int64_t n) {
  return [n](std::int64_t output) {
    const auto [index, is_up] = gate_or_up(output);
    return index >= n ? -1 : is_up ? n + index : index;
  };
}

// Converts weights to the device's order, each in temporary memory that lives while it is put.
class Packing {
 public:
  explicit Packing(const PutWeight& put) : put_(put) {}

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
  // If n_in is greater than the original's, pads with zeros.
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
  // Keeps the rows' order and rounds each value.
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
  // Stores one row by weight_at(), whose offsets are the same in each of the row's depth tiles.
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

  void send(const void* to, const void* from, std::size_t bytes) { put_(const_cast<void*>(to), from, bytes); }

  const PutWeight& put_;
};

void pack_layer(const ModelConfig& config, const ModelWeights::Layer& from, const DeviceModel::Layer& to,
                Packing& packing) {
  const std::int64_t hidden = config.hidden_size, queries = std::int64_t{config.n_heads} * config.head_dim;
  const std::int64_t ffn = device_ffn(config);
  packing.vector(to.attention_norm, from.attention_norm);
  packing.vector(to.ffn_norm, from.ffn_norm);
  packing.matrix(to.qkv, from.qkv, qkv_width(config), hidden, as_it_is(qkv_width(config)));
  packing.matrix(to.attention_out, from.attention_out, hidden, queries, as_it_is(hidden));
  packing.matrix(to.gate_up, from.gate_up, 2 * ffn, hidden, gated_rows(config.intermediate_size));
  packing.matrix(to.down, from.down, hidden, ffn, as_it_is(hidden));
  packing.vector(to.qkv_bias, from.qkv_bias);
  packing.vector(to.attention_out_bias, from.attention_out_bias);
  packing.vector(to.gate_up_bias, from.gate_up_bias, 2 * ffn, gates_then_ups(config.intermediate_size));
  packing.vector(to.down_bias, from.down_bias);
  packing.vector(to.q_norm, from.q_norm);
  packing.vector(to.k_norm, from.k_norm);
}

}  // namespace

void pack_model(const ModelWeights& weights, const DeviceModel& places, const PutWeight& put) {
  const ModelConfig& config = weights.config;
  SLIP_CHECK(places.layers.size() == weights.layers.size(), "places for another model");
  Packing packing(put);
  packing.table(places.embedding, weights);
  for (std::size_t i = 0; i < places.layers.size(); ++i) {
    pack_layer(config, weights.layers[i], places.layers[i], packing);
  }
  packing.vector(places.final_norm, weights.final_norm);
  packing.matrix(places.lm_head, weights.lm_head, config.vocab_size, config.hidden_size, as_it_is(config.vocab_size));
}

DeviceImage::DeviceImage(std::shared_ptr<DeviceQueue> queue, const ModelWeights& weights)
    : queue_(std::move(queue)),
      config_(weights.config),
      tied_(is_tied(weights)),
      memory_(*queue_, device_model_bytes(config_, tied_)) {
  pack_model(weights, place_model(config_, tied_, memory_.get()),
             [](void* place, const void* from, std::size_t bytes) { std::memcpy(place, from, bytes); });
}

}  // namespace slip
