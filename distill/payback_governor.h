// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "common/clock.h"
#include "distill/governor.h"

namespace slip {

struct PaybackOptions {
  double max_share = 0.1;        // 0 to 1: share of the time of the engine's steps that learning may cost
  double payback_s = 600;        // > 0: seconds of serving within which a gain must pay back its cost
  double steps_per_request = 2;  // ≥ 0: limit of optimizer steps per finished request of a topic; 1/2 while busy
  double burst_s = 1;            // seconds of cost that may be saved up, so that a new service can train at once
};

// A governor that trains only if training pays. While the engine is idle, units run freely. While it is busy, they hold
// a lease; but if the engine idles a quarter of the time, training waits for idle time instead. The time by which
// leases lengthen the engine's steps is paid from a budget of max_share of the steps' time. Requests that wait for
// admission make no difference. An optimizer step that has begun is finished even if it overdraws the budget: the
// engine's step during which a lease ends stays slow to its end, so one long lease costs less than many short ones. A
// step begins only if the topic's learning curve predicts that it pays (training_payback.h). Scoring always gets 1 % of
// the time. `cores` must outlive the governor.
std::unique_ptr<Governor> make_payback_governor(const PaybackOptions& options, CoreSharing& cores,
                                                std::int64_t (*now_us)() = monotonic_us);

}  // namespace slip
