// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/slice_step.h"

#include "engine/speculative/draft_runner.h"

namespace slip {

StepInput SliceStep::of(std::span<const DraftSlice> slices) {
  rows_.clear();
  for (const DraftSlice& slice : slices) {
    if (!slice.seen.empty()) {
      rows_.add({slice.tokens, slice.positions, slice.seen, slice.pages, slice.n_cached, slice.n_ahead});
      continue;
    }
    const auto wanted = slice.wants_logits ? WantedLogits::kFromLast : WantedLogits::kNone;
    rows_.add({slice.tokens, slice.pages, slice.n_cached, /*proposal=*/nullptr, wanted});
  }
  return rows_.step();
}

}  // namespace slip
