// SPDX-License-Identifier: Apache-2.0
// Versions of drafts as a device's families take them, and slots that serve them.
#pragma once

#include <memory>
#include <utility>

#include "engine/speculate/device_draft_family.h"
#include "tests/engine/tiny_draft.h"
#include "tests/kernels/cuda/host_queue.h"

namespace slip::testing {

inline std::shared_ptr<const DraftVersion> packed_version(std::shared_ptr<const ModelWeights> weights,
                                                          std::uint64_t number) {
  return packed(*draft_version(std::move(weights), number), pack_for(std::make_shared<kernels::cuda::HostQueue>()));
}

inline std::shared_ptr<DraftSlot> packed_slot(std::shared_ptr<const ModelWeights> weights) {
  return std::make_shared<DraftSlot>(DraftId{0}, "tiny", packed_version(std::move(weights), 1));
}

}  // namespace slip::testing
