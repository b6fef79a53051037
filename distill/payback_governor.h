// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "common/clock.h"
#include "distill/governor.h"

namespace slip {

struct PaybackOptions {
  double max_share = 0.1;  // 0 to 1: share of the time of the engine's steps that learning may cost
  double payback_s = 600;  // > 0: seconds of serving within which a gain must pay back its cost
  // ≥ 0: limit of optimizer steps per finished request of a topic. While the engine is busy, at most 1 for a topic's
  // first 48 requests, then falling to 3/8; more steps that it took in idle time do not count against that.
  double steps_per_request = 2;
  double burst_s = 1;  // size of the budget in seconds of cost; it starts full, so that a busy service can learn early
};

// Returns a governor that trains only if training pays. `cores` must outlive it.
//  - An optimizer step begins only if the topic's learning curve predicts that it pays (training_payback.h).
//  - While the engine is idle (CoreSharing::idle), units need no lease and cost nothing.
//  - While it is busy, units hold a lease. The time by which leases lengthen the engine's steps is paid from a budget,
//    which gains max_share of the steps' time. Scoring gets 1 % of the time even when the budget is empty.
//  - If the engine idled a tenth of the last five seconds or 2 s of the last minute, nothing gets a lease: training
//    waits for idle time, and scoring uses the engine's gaps. So too in the first five seconds, and in the first minute
//    once a request waited for a place. Silences of two seconds and more, in which neither a unit nor a step is asked
//    for, do not count.
//  - Training also waits while a prompt is read, until 2 s after its last lease.
//  - An optimizer step that has begun may overdraw the budget by half its size. The engine's step during which a lease
//    ends stays slow to its end, so one long lease costs less than many short ones.
//  - Unlike the slack governor, it goes on while requests wait for admission.
std::unique_ptr<Governor> make_payback_governor(const PaybackOptions& options, CoreSharing& cores,
                                                std::int64_t (*now_us)() = monotonic_us);

}  // namespace slip
