// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distill/governor.h"
#include "engine/scheduler/decode_time.h"

namespace slip {

// The numbers from which decide_training() decides whether training pays.
struct PaybackTerms {
  double payback_s = 600;        // seconds of serving within which a gain must pay back the cost of training
  double steps_per_request = 4;  // limit of optimizer steps per finished request
  // The limit while the engine is busy. It bounds the steps that a busy engine takes: those that the topic took beyond
  // it in idle time do not count.
  double busy_steps_per_request = 4;
  bool busy = false;
  DecodeTime decode = DecodeTime::of_chain(3);
  double lease_cost = 0;  // share of the service's time that training takes now, 0 to 1; 0: on spare cores
};

// The state of one topic between decisions.
struct TopicPause {
  bool stopped = false;
  std::uint64_t requests_at_stop = 0;
  std::uint64_t requests_to_wait = 64;  // until the next trial; doubles with each, up to 2,048, until training pays
  std::uint64_t trial_until_step = 0;   // up to this steps_done, training runs whatever the curve predicts
  std::uint64_t requests_forgone = 0;   // requests that allow no steps, since the topic was stopped
  // Added to the limit of a busy engine. Above 0: the steps beyond it that were taken in idle time. Below 0: the steps
  // that are not made up for, since the topic was stopped.
  double busy_limit_shift = 0;
  double alpha_at_stop = 0;
};

// Decides whether the next optimizer steps of a topic are worth their cost. The curve predicts a gain of α over the
// next 40, 80 and 160 steps. The return is the share of time that this gain saves by `decode`, times the topic's share
// of steps, times payback_s. The price is lease_cost times the steps' seconds. Training runs if one of the three
// horizons returns at least twice its price. A flat curve stops training on spare cores too. A stopped topic starts a
// trial after requests_to_wait requests, or when the acceptance rate of its live draft falls, if a trial could pay.
// Updates `pause`. Pure otherwise.
StepDecision decide_training(const TopicProgress& topic, const PaybackTerms& terms, TopicPause& pause);

}  // namespace slip
