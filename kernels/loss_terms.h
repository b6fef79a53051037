// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/device_code.h"

namespace slip {

enum class LossKind : std::uint8_t {
  kForwardKl,       // KL(p‖q)
  kReverseKl,       // KL(q‖p)
  kJsd,             // β·KL(p‖m) + (1−β)·KL(q‖m), m = βp + (1−β)q
  kTotalVariation,  // 1 − Σ min(p, q), the rejection rate
};

struct LossOptions {
  LossKind kind = LossKind::kForwardKl;
  double beta = 0.5;         // kJsd only, (0, 1)
  double temperature = 1.0;  // > 0; p and q are compared at this temperature
};

namespace kernels {

// Lower bound of the tail mass: 1 − Σ p cannot distinguish less from rounding.
inline constexpr double kSmallestTail = 1e-8;

// One bucket's part of a loss: its term, and slope = d loss / d q, where q is the bucket's mass under the draft.
struct LossTerm {
  double loss = 0;
  double slope = 0;
};

SLIP_DEVICE LossTerm bucket_term(const LossOptions& options, double p, double log_p, double q, double log_q) {
  switch (options.kind) {
    case LossKind::kForwardKl:
      return {p > 0 ? p * (log_p - log_q) : 0.0, -p / q};
    case LossKind::kReverseKl:
      return {q * (log_q - log_p), log_q - log_p + 1};
    case LossKind::kJsd: {
      const double b = options.beta;
      const double m = b * p + (1 - b) * q;
      const double log_m = log(m);
      const double from_p = p > 0 ? b * p * (log_p - log_m) : 0.0;
      return {from_p + (1 - b) * q * (log_q - log_m), (1 - b) * (log_q - log_m)};
    }
    case LossKind::kTotalVariation:
      return {p - (q < p ? q : p), q < p ? -1.0 : 0.0};
  }
  return {};
}

}  // namespace kernels
}  // namespace slip
