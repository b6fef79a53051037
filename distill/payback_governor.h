// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "common/clock.h"
#include "distill/governor.h"

namespace slip {

struct PaybackOptions {
  double max_share = 0.1;        // 0 to 1: of the time of the engine's steps that learning may cost
  double payback_s = 600;        // > 0: seconds of serving within which a gain must bring back its cost
  double steps_per_request = 2;  // ≥ 0: most optimizer steps for each finished request of a topic; 1/2 while busy
  double burst_s = 1;            // of cost that may be saved up, so that a fresh service invests at once
};

// Training as an investment. While the engine idles, units run freely; an engine that idles a quarter of the time is
// left alone while it is busy. Otherwise units then hold a lease, and the time by which leases lengthened its steps is
// paid from a budget of max_share of the steps' time; requests that wait for admission change nothing. An optimizer
// step that has begun goes on to its end, overdrawing the budget: the engine's step at which a lease ends is slow to
// its end, so that one long lease costs less than many short ones. A step begins only if the topic's learning curve
// says that it pays (training_payback.h). Scoring has 1 % of the time in any case. `cores` outlives the governor.
std::unique_ptr<Governor> make_payback_governor(const PaybackOptions& options, CoreSharing& cores,
                                                std::int64_t (*now_us)() = monotonic_us);

}  // namespace slip
