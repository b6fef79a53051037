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

// The input of one forward and backward pass: one unit of work.
struct Microbatch {
  PackedSequences input;
  // [Σ wanted] The target's distribution for each wanted row. Points into the records, which outlive this object. A row
  // that is left out of the loss has an empty TopK.
  std::vector<const TopK*> targets;
  // The number of rows in the loss.
  std::int64_t rows() const;
};

// Splits records, in order, into microbatches of at most `max_tokens` tokens; a longer record gets one of its own.
// Tokens beyond the draft's context are left out, and so are microbatches without a row in the loss. `skip_looked_up`:
// see TrainerOptions. Error{kDataLoss} naming a record that does not fit the draft's vocabulary. Pure.
std::vector<Microbatch> plan_microbatches(std::span<const ReplayRecord> records, const ModelConfig& config,
                                          std::int32_t max_tokens, bool skip_looked_up = false);

}  // namespace slip
