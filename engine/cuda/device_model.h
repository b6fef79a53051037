// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoints/model_config.h"
#include "kernels/cuda/jobs.h"

namespace slip {

// Where one model's weights stand, in the order a device's products read them. A weight that the architecture has not
// is empty.
struct DeviceModel {
  struct Layer {
    kernels::cuda::Weight<float> attention_norm, ffn_norm;
    kernels::cuda::Weight<std::uint16_t> qkv, attention_out;
    kernels::cuda::Weight<std::uint16_t> gate_up;  // tiles of 16 gates and tiles of their ups in turn
    kernels::cuda::Weight<std::uint16_t> down;
    kernels::cuda::Weight<float> qkv_bias, attention_out_bias, gate_up_bias, down_bias;
    kernels::cuda::Weight<float> q_norm, k_norm;
  };
  std::vector<Layer> layers;
  kernels::cuda::Weight<std::uint16_t> embedding;  // [vocab, hidden]; empty: the head's matrix is the embedding
  kernels::cuda::Weight<std::uint16_t> lm_head;
  kernels::cuda::Weight<float> final_norm;
};

// Queries, keys and values of one row.
std::int64_t qkv_width(const ModelConfig& config);
// The intermediate size, filled up with zeros to whole tiles.
std::int64_t device_ffn(const ModelConfig& config);

// Gives every weight its place, one behind the other from `base` on; `tied`: the head's matrix is the embedding.
DeviceModel place_model(const ModelConfig& config, bool tied, std::byte* base);
std::size_t device_model_bytes(const ModelConfig& config, bool tied);

}  // namespace slip
