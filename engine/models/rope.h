// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "checkpoints/model_config.h"

namespace slip {

// Radians a position for each pair of dimensions, [head_dim / 2], the model's scaling applied. Rounded to float32 on
// the way, as PyTorch does: the weights were trained with these very values, and at position 1000 the rounding already
// turns by 1e-5 of a radian. Linear: Chen et al., "Extending Context Window … via Positional Interpolation" (2023);
// yarn: Peng et al., "YaRN" (2023), section 3.2, with the ramp over dimensions and its rounded borders as
// transformers' modeling_rope_utils.py has them; llama3: the same file's _compute_llama3_parameters, which is what
// Llama 3.1 was released with.
std::vector<float> rope_frequencies(const ModelConfig& config);

// [max_positions, head_dim / 2] each; yarn's attention factor is in both.
struct RopeTable {
  explicit RopeTable(const ModelConfig& config);
  std::vector<float> cos, sin;
};

}  // namespace slip
