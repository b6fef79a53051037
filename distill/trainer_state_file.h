// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoints/model_config.h"

namespace slip {

// What a trainer needs to go on exactly where it stopped, as one flat file, little-endian:
//
//   magic "SLIPOPT\2" | vocab, hidden, ffn, layers, heads, kv heads, head size, tied: u32 each | steps u64
//   n recent losses u32 | recent losses f64 | n floats u64 | floats f32 | crc32c u32 over all that precedes
//
// The floats are all parameters, all first moments, all second moments, then the parameters' moving averages.
struct TrainerState {
  static constexpr int kParts = 4;

  std::uint64_t steps = 0;
  std::vector<double> recent_losses;
  std::vector<float> floats;
};

// Atomic replacement; fail points `optimizer.*`.
void write_trainer_state(const std::filesystem::path& file, const ModelConfig& shape, const TrainerState& state);
// Error{kNotFound}; Error{kDataLoss} when the file is torn, damaged, of another format or of another shape. Sizes are
// checked before anything is allocated.
TrainerState read_trainer_state(const std::filesystem::path& file, const ModelConfig& shape);

}  // namespace slip
