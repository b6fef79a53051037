// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distill/governor.h"
#include "engine/scheduler/decode_time.h"

namespace slip {

// When training pays, as a decision on plain numbers.
struct PaybackTerms {
  double payback_s = 600;        // seconds of serving within which a gain must bring back what training cost
  double steps_per_request = 4;  // most optimizer steps for each finished request of a topic; its first 16 count twice
  DecodeTime decode = DecodeTime::of_chain(3);
  double lease_cost = 0;  // share of the service's time that training takes now, 0 to 1; 0: spare cores train
};

// What is remembered of one topic between decisions.
struct TopicPause {
  bool stopped = false;
  std::uint64_t requests_at_stop = 0;
  std::uint64_t requests_to_wait = 128;  // before the next trial; doubles with each one that finds the curve flat
  std::uint64_t trial_until_step = 0;    // steps_done up to which training runs whatever the curve says
  double alpha_at_stop = 0;
};

// Whether the next optimizer steps of a topic are worth their cost. The curve predicts a gain of α over the next 40, 80
// and 160 steps; what that saves by `decode`, times the topic's share of tokens and payback_s, is the return, and
// lease_cost times the steps' seconds the price. They run if one of the three brings back twice its price. A flat curve
// stops training on spare cores too. A topic that has stopped tries again after requests_to_wait requests, or when its
// live draft's acceptance falls, if a trial could pay. Updates `pause`. Pure otherwise.
StepDecision decide_training(const TopicProgress& topic, const PaybackTerms& terms, TopicPause& pause);

}  // namespace slip
