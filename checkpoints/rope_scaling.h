// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "checkpoints/strict_json.h"

namespace slip {

enum class RopeType : std::uint8_t { kDefault, kLinear, kLlama3, kYarn };

// RoPE scaling: how a model's rotation is stretched beyond its original context. Members that a type does not use keep
// their defaults, so equal rotations compare equal.
struct RopeScaling {
  RopeType type = RopeType::kDefault;
  double factor = 1;                        // ≥ 1: ratio of the new context length to the original
  std::int32_t original_max_positions = 0;  // llama3, yarn
  double low_freq_factor = 0;               // llama3: wavelengths longer than original / low are stretched fully
  double high_freq_factor = 0;              // llama3: wavelengths shorter than original / high are not stretched
  // Yarn: blends dimensions that turn between slow and fast times in the original context
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;         // yarn: rounds the blend's borders to whole dimensions
  double attention_factor = 1;  // yarn: factor of cosines and sines
  bool operator==(const RopeScaling&) const = default;
};

struct RopeSettings {
  double theta = 10000.0;
  RopeScaling scaling;
};

// Reads `rope_scaling` and `rope_theta` (transformers 4) or `rope_parameters` (5); a file may have both if they agree.
// original_max_position_embeddings may be inside the object or beside it; its default is `max_positions`. Throws
// Error{kInvalidArgument | kUnsupported} naming the key.
RopeSettings read_rope_settings(const JsonFields& fields, std::int32_t max_positions);

// The value of `rope_parameters`, including rope_theta.
nlohmann::json rope_parameters_json(const RopeSettings& settings);

}  // namespace slip
