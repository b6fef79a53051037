// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoints/model_config.h"
#include "kernels/cuda/jobs.h"

namespace slip {

// The addresses of one model's weights, in the order in which a device's products read them. Weights that the
// architecture lacks are empty.
struct DeviceModel {
  struct Layer {
    kernels::cuda::Weight<float> attention_norm, ffn_norm;
    kernels::cuda::Weight<std::uint16_t> qkv, attention_out;
    kernels::cuda::Weight<std::uint16_t> gate_up;  // tiles of 16 gates alternate with tiles of their ups
    kernels::cuda::Weight<std::uint16_t> down;
    kernels::cuda::Weight<float> qkv_bias, attention_out_bias, gate_up_bias, down_bias;
    kernels::cuda::Weight<float> q_norm, k_norm;
  };
  std::vector<Layer> layers;
  kernels::cuda::Weight<std::uint16_t> embedding;  // [vocab, hidden]; empty: tied to lm_head
  kernels::cuda::Weight<std::uint16_t> lm_head;
  kernels::cuda::Weight<float> final_norm;
};

// Elements of one row of queries, keys and values.
std::int64_t qkv_width(const ModelConfig& config);
// The intermediate size, zero-padded to whole tiles.
std::int64_t device_ffn(const ModelConfig& config);

// Places all weights one after the other from `base` on; `tied`: the head's matrix is the embedding.
DeviceModel place_model(const ModelConfig& config, bool tied, std::byte* base);
std::size_t device_model_bytes(const ModelConfig& config, bool tied);

}  // namespace slip
