// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distill/governor.h"

namespace slip {

// When training pays, as a decision on plain numbers.
struct PaybackTerms {
  double payback_s = 600;        // seconds of serving within which a gain must bring back what training cost
  double steps_per_request = 4;  // most optimizer steps for each finished request of a topic
  int k = 3;                     // draft length
  double lease_cost = 0;         // share of the service's time that training takes now, 0 to 1; 0: spare cores train
};

// What is remembered of one topic between decisions.
struct TopicPause {
  bool stopped = false;
  std::uint64_t requests_at_stop = 0;
  std::uint64_t requests_to_wait = 32;  // before the next trial; doubles with each one that finds the curve flat
  std::uint64_t trial_until_step = 0;   // steps_done up to which training runs whatever the curve says
  double alpha_at_stop = 0;
};

// Tokens that one verification commits on average, with a chain of `k` and acceptance rate `alpha` in [0, 1]: equation
// 1 of Leviathan et al. (2023).
double accepted_length(int k, double alpha);

// Whether the next optimizer steps of a topic are worth their cost. Over 40 steps the curve's predicted gain of α makes
// the topic's verifications 1 − Ω(α)/Ω(α + gain) fewer; times the topic's share of tokens and payback_s that is the
// time saved, and lease_cost times the steps' seconds is the price. Updates `pause`. Pure otherwise.
StepDecision decide_training(const TopicProgress& topic, const PaybackTerms& terms, TopicPause& pause);

}  // namespace slip
