// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "engine/speculative/step_rows.h"

namespace slip {

struct DraftFeed;

// The step that reads some feeds, one sequence each.
class FedStep {
 public:
  // Good until the next call; as StepRows::step().
  StepInput of(std::span<const DraftFeed> feeds);

 private:
  StepRows rows_;
};

}  // namespace slip
