// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/fed_step.h"

#include "engine/speculative/draft_family.h"

namespace slip {

StepInput FedStep::of(std::span<const DraftFeed> feeds) {
  rows_.clear();
  for (const DraftFeed& feed : feeds) {
    const auto wanted = feed.wants_logits ? WantedLogits::kFromLast : WantedLogits::kNone;
    rows_.add({feed.tokens, feed.pages, feed.n_cached, /*proposal=*/nullptr, wanted});
  }
  return rows_.step();
}

}  // namespace slip
