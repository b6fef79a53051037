// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distill/draft_trainer.h"

namespace slip {

// The factor of all learning rates at `step`, counted from 0: linear warm-up to 1, then constant, or cosine down to 10
// % when an end is given. Pure.
double learning_rate_factor(const TrainerOptions& options, std::int64_t step);

// The factor of all learning rates for a draft whose argmax is the target's in a share `agreement` of the rows, in
// [0, 1]: 1 up to a half, then falling to a tenth. At α = .66 Muon's .03 costs .13 of α within 24 steps and .01 costs
// .03, while .003 costs nothing; below a half less than .03 only learns more slowly (bench/ablate, embedded draft). A
// tenth remains, since some topics can be learned by heart. Pure.
double agreement_factor(double agreement);

}  // namespace slip
