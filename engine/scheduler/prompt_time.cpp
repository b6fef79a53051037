// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/prompt_time.h"

#include <algorithm>

namespace slip {

void PromptTimeEstimate::add(std::int32_t rows, double more_us, bool decodes) {
  if (!decodes && rows < kRowsWorthMeasuring) return;
  us_ = keep_ * us_ + more_us;
  rows_ = keep_ * rows_ + rows;
}

double PromptTimeEstimate::row_us() const {
  return known() ? std::max(0.0, us_ / rows_) : 0;
}

std::int32_t PromptTimeEstimate::rows_within(double us, std::int32_t most) const {
  const double each_us = row_us();
  if (!(each_us > 0) || us >= each_us * most) return most;
  return std::min(most, std::max(kLeastPromptRows, static_cast<std::int32_t>(us / each_us)));
}

}  // namespace slip
