// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "engine/request.h"

namespace slip {

// The work and the times of one engine step, for ledger, metrics and governor.
struct StepFigures {
  std::int64_t at_us = 0;  // monotonic, at the step's end
  std::int64_t step_us = 0, plan_us = 0, draft_us = 0, verify_us = 0, swap_us = 0;
  std::int32_t n_decoding = 0, n_prefilling = 0;
  std::int32_t prefill_rows = 0, verify_rows = 0;
  std::int32_t proposed = 0, accepted = 0, committed = 0;
  std::int32_t n_waiting = 0;    // requests waiting for admission: > 0 is saturation
  std::int32_t n_preempted = 0;  // sequences whose pages were taken before this step
};

// Called on the engine thread after each step and each finished request: must not block, must not throw. By default a
// listener ignores both.
class StepListener {
 public:
  virtual ~StepListener() = default;
  virtual void on_step(const StepFigures& /*figures*/) noexcept {}
  virtual void on_finished(const RequestSummary& /*summary*/) noexcept {}
};

}  // namespace slip
