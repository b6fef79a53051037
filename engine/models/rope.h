// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "checkpoints/model_config.h"

namespace slip {

// Radians per position for each pair of dimensions, [head_dim / 2], with the model's scaling applied. Intermediate
// values are rounded to float32 as in PyTorch, since the weights were trained with exactly these values; at position
// 1000 the rounding changes the angle by 1e-5 radian. Linear: Chen et al., "Extending Context Window … via Positional
// Interpolation" (2023). yarn: Peng et al., "YaRN" (2023), section 3.2, with the ramp over dimensions and its rounded
// borders as in transformers' modeling_rope_utils.py. llama3: that file's _compute_llama3_parameters, with which Llama
// 3.1 was released.
std::vector<float> rope_frequencies(const ModelConfig& config);

// [max_positions, head_dim / 2] each; both include yarn's attention factor.
struct RopeTable {
  explicit RopeTable(const ModelConfig& config);
  std::vector<float> cos, sin;
};

}  // namespace slip
