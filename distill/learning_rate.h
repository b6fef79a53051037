// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distill/draft_trainer.h"

namespace slip {

// Linear warm-up, then constant, or cosine down to 10 % when an end is given. `step` counts from 0. Pure.
double learning_rate_at(const TrainerOptions& options, std::int64_t step);

}  // namespace slip
