// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distill/draft_trainer.h"

namespace slip {

// The factor of all learning rates at `step`, counted from 0: linear warm-up to 1, then constant, or cosine down to 10
// % when an end is given. Pure.
double learning_rate_factor(const TrainerOptions& options, std::int64_t step);

// The factor of all learning rates for a draft whose argmax is the target's in a share `agreement` of the rows, in
// [0, 1]: 1 up to .4, then falling to a tenth. A draft that knows a text loses by whole steps before it gains: from α =
// .43 to .32 in 24 steps of lang, and .39 by half of them; at .66 Muon's .03 costs .13 and .003 nothing. From .3 on,
// sql and math of a little trained draft (α .36 and .30) would learn too slowly (bench/ablate). A tenth remains, since
// some topics can be learned by heart. Pure.
double agreement_factor(double agreement);

}  // namespace slip
