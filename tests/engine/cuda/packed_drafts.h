// SPDX-License-Identifier: Apache-2.0
// Versions of drafts as a device's runners take them, and live drafts that serve them.
#pragma once

#include <memory>
#include <utility>

#include "engine/cuda/device_draft_runner.h"
#include "tests/engine/tiny_draft.h"
#include "tests/kernels/cuda/host_queue.h"

namespace slip::testing {

inline std::shared_ptr<const DraftVersion> packed_version(std::shared_ptr<const ModelWeights> weights,
                                                          std::uint64_t number, DraftId draft = {0}) {
  DraftVersion version = *draft_version(std::move(weights), number);
  version.draft = draft;
  return packed(std::move(version), pack_for(std::make_shared<kernels::cuda::HostQueue>()));
}

inline std::shared_ptr<LiveDraft> packed_live_draft(std::shared_ptr<const ModelWeights> weights, DraftId draft = {0}) {
  return std::make_shared<LiveDraft>(draft, "tiny", packed_version(std::move(weights), 1, draft));
}

}  // namespace slip::testing
