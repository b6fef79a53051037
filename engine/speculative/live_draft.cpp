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
  // A version that came back by rollback is there already. Two entries would keep its count above one for ever.
  const bool listed = std::find(retired_.begin(), retired_.end(), replaced) != retired_.end();
  if (replaced && !listed) retired_.push_back(std::move(replaced));
}

void LiveDraft::reclaim() {
  // A count of one means that only this list holds the version. It cannot rise again, since get() no longer returns
  // this version. After a rollback, `live_` holds the version too, so it stays.
  std::erase_if(retired_, [](const auto& version) { return version.use_count() == 1; });
}

}  // namespace slip
