// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/model/transformer.h"

namespace slip {

struct StepBounds {
  std::int32_t max_rows = 0, max_logit_rows = 0;
};

// SLIP_CHECKs what a forward pass relies on, wherever it runs: the caller's mistakes are bugs.
void check_step(const StepInput& input, const ModelConfig& config, const StepBounds& bounds);

}  // namespace slip
