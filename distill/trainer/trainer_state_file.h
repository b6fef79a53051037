// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoints/model_config.h"
#include "distill/trainer/draft_trainer.h"

namespace slip {

// The state from which a trainer resumes exactly where it stopped, as one flat file, little-endian:
//
//   magic "SLIPOPT\3" | vocab, hidden, ffn, layers, heads, kv heads, head size, tied, optimizer: u32 each | steps u64
//   n recent losses u32 | recent losses f64 | n floats u64 | floats f32 | crc32c u32 over all that precedes
//
// The floats are all parameters, then the optimizer's moments, then the parameters' moving averages. AdamW's moments
// are all first ones, then all second ones. With Muon, AdamW's moments cover only the other parameters, and the momenta
// of the layers' matrices follow.
struct TrainerState {
  static constexpr int kParts = 4;  // floats per parameter value with AdamW
  static std::uint64_t n_floats(const ModelConfig& shape, OptimizerKind optimizer);

  std::uint64_t steps = 0;
  std::vector<double> recent_losses;
  std::vector<float> floats;
};

// Replaces the file atomically; fail points `optimizer.*`.
void write_trainer_state(const std::filesystem::path& file, const ModelConfig& shape, const TrainerState& state,
                         OptimizerKind optimizer = OptimizerKind::kAdamW);
// Reads a state. Error{kNotFound}; Error{kDataLoss} when the file is torn, damaged, of another format, shape or
// optimizer. Sizes are checked before anything is allocated.
TrainerState read_trainer_state(const std::filesystem::path& file, const ModelConfig& shape,
                                OptimizerKind optimizer = OptimizerKind::kAdamW);

}  // namespace slip
