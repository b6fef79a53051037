// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "distill/canary/learning_curve.h"

namespace slip {

// The version that a trainer's saved state belongs to, how far it was, and what is known about further steps. Written
// beside the state.
struct TrainerLineage {
  std::string source;  // name of the draft whose version it trains
  std::uint64_t version = 0;
  std::uint64_t steps_before = 0;  // optimizer steps of the version it started from
  std::uint64_t steps = 0;         // the trainer's own steps when saved
  std::uint64_t draws = 0;         // batches drawn so far
  LearningCurve curve = LearningCurve();
  double step_seconds = 0;  // as in TopicState
};

// Also reads what an earlier version wrote, without a curve. Error{kDataLoss} if the file is none of these; kNotFound,
// kIo.
TrainerLineage read_lineage(const std::filesystem::path& file);
// Replaces the file durably. Fail points `optimizer.lineage.*`. Error{kIo}.
void write_lineage(const std::filesystem::path& file, const TrainerLineage& lineage);

}  // namespace slip
