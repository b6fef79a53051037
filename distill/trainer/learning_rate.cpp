// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace slip {
namespace {

double as_kl(LossKind kind, double loss) {
  switch (kind) {
    case LossKind::kForwardKl:
    case LossKind::kReverseKl:
      return loss;
    case LossKind::kJsd:
      return 6.8 * loss;
    case LossKind::kTotalVariation:
      return 6 * loss * loss;
  }
  return loss;
}

}  // namespace

double learning_rate_factor(const TrainerOptions& options, std::int64_t step) {
  if (step < options.warmup_steps) {
    return static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
  }
  if (options.total_steps > options.warmup_steps) {
    const double past = static_cast<double>(step - options.warmup_steps);
    const double share = std::min(1.0, past / static_cast<double>(options.total_steps - options.warmup_steps));
    return 0.1 + 0.45 * (1 + std::cos(std::numbers::pi * share));
  }
  return 1;
}

double loss_factor(LossKind kind, double loss) {
  constexpr double kFull = 1.3, kPower = 5, kLeast = 0.1;
  return std::clamp(std::pow(as_kl(kind, loss) / kFull, kPower), kLeast, 1.0);
}

}  // namespace slip
