// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace slip {

// The version that a trainer's saved state belongs to, and how far it was. Written beside the state.
struct TrainerLineage {
  std::string source;  // name of the draft whose version it trains
  std::uint64_t version = 0;
  std::uint64_t steps_before = 0;  // optimizer steps behind the version it started from
  std::uint64_t steps = 0;         // the trainer's own steps when saved
  std::uint64_t draws = 0;         // batches drawn so far
};

// Error{kDataLoss} if the file is none that write_lineage() writes; kNotFound, kIo.
TrainerLineage read_lineage(const std::filesystem::path& file);
// Replaces the file durably. Fail points `optimizer.lineage.*`. Error{kIo}.
void write_lineage(const std::filesystem::path& file, const TrainerLineage& lineage);

}  // namespace slip
