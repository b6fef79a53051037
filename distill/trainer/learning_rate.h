// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distill/trainer/draft_trainer.h"
#include "distill/trainer/loss.h"

namespace slip {

// The factor of all learning rates at `step`, counted from 0: linear warm-up to 1, then constant, or cosine down to 10
// % when an end is given. Pure.
double learning_rate_factor(const TrainerOptions& options, std::int64_t step);

// The factor of all learning rates for a batch of this mean loss a row, in [0.1, 1]: 1 from 1.3 nats of KL on, and
// below in proportion to its fifth power. Muon's steps are equally long however small the gradient is, so that a draft
// near its optimum loses by whole steps before it gains: α of lang (1.0 nats, .48) falls to .33 by 16 whole steps, and
// .13 are lost on math (.8 nats, .67). The share of equal argmaxes does not tell this: at .36 and .31 a draft that had
// seen little of sql and math was 3 nats away, and half its whole steps took it to .59 and .55 (bench/ablate). A tenth
// remains, since some topics can be learned by heart. The other losses are turned into nats of KL, as measured on those
// drafts: 6.8 times the JSD, 6 times the square of the total variation. Pure.
double loss_factor(LossKind kind, double loss);

}  // namespace slip
