// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip {

// The speed that a client asks for; 0: none. Targets change when tokens come, never which.
struct SloTargets {
  std::int64_t tpot_us = 0;  // mean time per output token, after the first one
  std::int64_t ttft_us = 0;  // from the submission to the first token
  std::int64_t e2e_us = 0;   // from the submission to the end of the answer
  bool any() const { return tpot_us > 0 || ttft_us > 0 || e2e_us > 0; }
};

// From milliseconds, as options give them.
inline SloTargets slo_targets_of_ms(double tpot_ms, double ttft_ms) {
  return {static_cast<std::int64_t>(1e3 * tpot_ms), static_cast<std::int64_t>(1e3 * ttft_ms)};
}

}  // namespace slip
