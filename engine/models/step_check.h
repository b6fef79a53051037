// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "engine/models/transformer.h"

namespace slip {

struct StepBounds {
  std::int32_t max_rows = 0, max_logit_rows = 0;
};

// SLIP_CHECKs the preconditions of a forward pass, on any backend: the caller's mistakes are bugs.
void check_step(const StepInput& input, const ModelConfig& config, const StepBounds& bounds);

// The caller's view for the hidden state after `layer`, or null where that is not wanted. `taps` has one view for each
// wanted layer, in layer order.
const TensorView* tap_of(const TapSet& wanted, std::span<const TensorView> taps, std::int32_t layer);

}  // namespace slip
