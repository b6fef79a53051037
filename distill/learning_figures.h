// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slip {

// Counts and state of learning for one topic since the service started. Plain data, made on the learner's thread about
// once a second.
struct TopicLearning {
  std::string topic, draft;
  std::uint64_t live_version = 0;
  std::uint64_t requests = 0;             // finished answers of clients that reached the learner
  std::uint64_t sampled_answers = 0;      // further answers that the target sampled for the learner
  std::uint64_t records_waiting = 0;      // not scored yet
  std::uint64_t records_unscored = 0;     // dropped unscored, since too many waited
  std::uint64_t optimizer_steps = 0;      // since the start
  std::uint64_t trainer_restarts = 0;     // fresh optimizer states after failures and rollbacks
  double training_s = 0, scoring_s = 0;   // CPU seconds of the learner's thread; exports are training
  double loss = 0;                        // smoothed over the latest steps, nats per row; 0: no step yet
  double lag_s = 0;                       // age of the oldest answer that no step could draw yet; 0: none
  double alpha_live = 0, alpha_base = 0;  // on the same text, with forgetting; 0: nothing scored yet
  double predicted_gain = 0;              // of α, by the learning curve, when training was last allowed
  double realised_gain = 0;               // of α, measured before each publication, summed since the start
  std::uint64_t published = 0, refused = 0, rolled_back = 0;
  std::string state;         // one line for people: "training", "waits for requests: 3 of 8", "the curve is flat"
  std::string last_refusal;  // why the last refused candidate was not published; "" when none was refused
};

struct LearningFigures {
  std::int64_t at_us = 0;             // wall clock
  double running_s = 0;               // since the learner started
  double share_of_service = 0;        // cost of learning to the service over the last minute, 0 to 1
  double cost_tokens_per_s = 0;       // the same in tokens/s
  std::uint64_t records_untaken = 0;  // dropped unscored before the learner had time to take them in; kept in replay
  std::uint64_t trainer_bytes = 0, scorer_bytes = 0, candidate_bytes = 0, queue_bytes = 0;
  std::vector<TopicLearning> topics;
};

}  // namespace slip
