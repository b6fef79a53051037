// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "checkpoints/strict_json.h"

namespace slip {

enum class RopeType : std::uint8_t { kDefault, kLinear, kLlama3, kYarn };

// How a model's rotation was stretched beyond the context it was first trained with. Members that a type does not use
// keep their defaults, so that equal rotations compare equal.
struct RopeScaling {
  RopeType type = RopeType::kDefault;
  double factor = 1;                        // ≥ 1: how many times longer
  std::int32_t original_max_positions = 0;  // llama3, yarn
  double low_freq_factor = 0;               // llama3: wavelengths of original / low are stretched in full …
  double high_freq_factor = 0;              // … and those of original / high not at all
  double beta_fast = 32, beta_slow = 1;     // yarn: turns within the original context between which it blends
  bool truncate = true;                     // yarn: the blend's borders are rounded to whole dimensions
  double attention_factor = 1;              // yarn: cosines and sines are multiplied by it
  bool operator==(const RopeScaling&) const = default;
};

struct RopeSettings {
  double theta = 10000.0;
  RopeScaling scaling;
};

// From `rope_scaling` and `rope_theta` (transformers 4) or `rope_parameters` (5); a file may have both if they agree.
// original_max_position_embeddings may stand within the object or beside it; `max_positions` stands in for an absent
// one. Throws Error{kInvalidArgument | kUnsupported} naming the key.
RopeSettings read_rope_settings(const JsonFields& fields, std::int32_t max_positions);

// The object that `rope_parameters` holds, rope_theta included.
nlohmann::json rope_parameters_json(const RopeSettings& settings);

}  // namespace slip
