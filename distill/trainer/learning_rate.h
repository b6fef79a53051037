// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distill/trainer/draft_trainer.h"
#include "distill/trainer/loss.h"

namespace slip {

// The factor of all learning rates at `step`, counted from 0: linear warm-up to 1, then constant, or a cosine down to
// 0.1 if total_steps is given. Pure.
double learning_rate_factor(const TrainerOptions& options, std::int64_t step);

// The factor of all learning rates for a batch with this mean loss per row, in [0.1, 1]. It is 1 from 1.3 nats of KL
// on, and below that proportional to the fifth power of the loss. Muon's steps have the same length however small the
// gradient is, so a draft near its optimum gets worse by full steps before it improves: α of lang (1.0 nats, .48) falls
// to .33 in 16 full steps, and math (.8 nats, .67) loses .13. The share of equal argmaxes does not show this: at .36
// and .31 a draft that had seen little of sql and math was 3 nats away, and half of its full steps took it to .59 and
// .55 (bench/ablate). At least a tenth remains, since some topics can be memorised. The other losses are converted to
// nats of KL, as measured on those drafts: 6.8 times the JSD, 6 times the square of the total variation. Pure.
double loss_factor(LossKind kind, double loss);

}  // namespace slip
