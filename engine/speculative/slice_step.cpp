// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/slice_step.h"

#include "engine/speculative/draft_runner.h"

namespace slip {

StepInput SliceStep::of(std::span<const DraftSlice> slices) {
  rows_.clear();
  for (const DraftSlice& slice : slices) {
    if (!slice.branch.seen.empty()) {
      rows_.add(slice, slice.branch);
      continue;
    }
    const auto wanted = slice.wants_logits ? WantedLogits::kFromLast : WantedLogits::kNone;
    rows_.add(SequenceRows{slice, /*proposal=*/nullptr, wanted});
  }
  return rows_.step();
}

}  // namespace slip
