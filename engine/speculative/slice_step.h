// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "engine/speculative/step_rows.h"

namespace slip {

struct DraftSlice;

// Builds the step that reads some slices, one sequence each.
class SliceStep {
 public:
  // Valid until the next call; as StepRows::step().
  StepInput of(std::span<const DraftSlice> slices);

 private:
  StepRows rows_;
};

}  // namespace slip
