// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/live_draft.h"

#include <algorithm>
#include <utility>

namespace slip {

std::shared_ptr<const DraftVersion> packed(DraftVersion version, const PackDraft& pack) {
  if (pack && version.image == nullptr) version.image = pack(*version.weights);
  return std::make_shared<const DraftVersion>(std::move(version));
}

LiveDraft::LiveDraft(DraftId id, std::string name, std::shared_ptr<const DraftVersion> first)
    : id_(id), name_(std::move(name)), live_(std::move(first)) {}

void LiveDraft::set(std::shared_ptr<const DraftVersion> next) {
  auto replaced = live_.exchange(std::move(next), std::memory_order_acq_rel);
  if (replaced) retired_.push_back(std::move(replaced));
}

void LiveDraft::reclaim() {
  // A count of one is ours alone and cannot rise again: get() no longer hands this version out. A version that came
  // back by a rollback is held by `live_` too and stays.
  std::erase_if(retired_, [](const auto& version) { return version.use_count() == 1; });
}

}  // namespace slip
