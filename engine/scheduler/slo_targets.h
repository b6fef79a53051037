// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

namespace slip {

// The speed that a client asks for; 0: none. Targets change when tokens come, never which.
struct SloTargets {
  std::int64_t tpot_us = 0;  // mean time per output token, after the first one
  std::int64_t ttft_us = 0;  // from the submission to the first token
  std::int64_t e2e_us = 0;   // from the submission to the end of the answer
  bool any() const { return tpot_us > 0 || ttft_us > 0 || e2e_us > 0; }
};

// The nearest number of microseconds: 1e3 * 64.1 is less than 64100. REQUIRES: at most 1e15 ms.
inline std::int64_t us_of_ms(double ms) {
  return std::llround(1e3 * ms);
}

// From milliseconds, as options give them.
inline SloTargets slo_targets_of_ms(double tpot_ms, double ttft_ms) {
  return {us_of_ms(tpot_ms), us_of_ms(ttft_ms)};
}

}  // namespace slip
