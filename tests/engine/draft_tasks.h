// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculative/proposer.h"

namespace slip::testing {

// A drafting step's tasks for these sequences; without `nodes` and `proposals`, they only catch up.
inline std::vector<DraftTask> draft_tasks(std::span<const SequenceRef> sequences,
                                          const std::vector<std::int32_t>& nodes = {},
                                          std::span<Proposal> proposals = {}, std::int32_t width = 1) {
  std::vector<DraftTask> tasks;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    tasks.push_back({&sequences[i], nodes.empty() ? 0 : nodes[i], width, proposals.empty() ? nullptr : &proposals[i]});
  }
  return tasks;
}

}  // namespace slip::testing
