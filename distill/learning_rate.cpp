// SPDX-License-Identifier: Apache-2.0
#include "distill/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace slip {

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

double agreement_factor(double agreement) {
  constexpr double kFull = 0.4, kFall = 10, kLeast = 0.1;  // .6 at .45, .2 at .56, .1 from .63 on
  return std::clamp(std::exp(kFall * (kFull - agreement)), kLeast, 1.0);
}

}  // namespace slip
