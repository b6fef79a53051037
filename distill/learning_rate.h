// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distill/draft_trainer.h"

namespace slip {

// The factor of all learning rates at `step`, counted from 0: linear warm-up to 1, then constant, or cosine down to 10
// % when an end is given. Pure.
double learning_rate_factor(const TrainerOptions& options, std::int64_t step);

}  // namespace slip
