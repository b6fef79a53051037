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

}  // namespace slip
