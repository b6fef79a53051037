// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes LibTorch (about 7 s to compile): only for the trainer's own .cpp files.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoints/model_config.h"
#include "distill/replay/replay_record.h"
#include "distill/trainer/torch_draft.h"

namespace slip {

// The records of one forward pass and its backward pass: one unit of work.
struct Microbatch {
  PackedSequences input;
  std::vector<const TopK*> targets;  // [Σ wanted], into the records it was planned from; skipped rows: an empty TopK
  // The number of rows with a target. The others (no ids) take part in the forward pass but not in the loss.
  std::int64_t rows() const;
};

// Splits records, in order, into microbatches of at most `max_tokens` tokens, or of one longer record. Tokens beyond
// the draft's context are left out, and so are records without a row to train on. Error{kDataLoss} naming the record
// whose tokens are not the draft's. `skip_looked_up`: see TrainerOptions. Pure.
std::vector<Microbatch> plan_microbatches(std::span<const ReplayRecord> records, const ModelConfig& config,
                                          std::int32_t max_tokens, bool skip_looked_up = false);

}  // namespace slip
