// SPDX-License-Identifier: Apache-2.0
#include "distill/training_payback.h"

#include <algorithm>
#include <cmath>

namespace slip {
namespace {

constexpr double kHorizonSteps = 40;         // predictions and trials look so far ahead
constexpr double kFlatGain = 0.002;          // of α over the horizon: less is a flat curve, even if training is free
constexpr double kUnknownStepSeconds = 0.1;  // of a topic that has not trained yet
constexpr double kAlphaFall = 0.03;          // of the live draft: the text has changed
constexpr std::uint64_t kFirstWait = 32, kLongestWait = 1024;  // requests between two trials
constexpr std::uint64_t kTrialSteps = 40;

double seconds_saved(const TopicProgress& topic, const PaybackTerms& terms, double gain) {
  const double alpha = std::clamp(topic.alpha_live, 0.0, 1.0);
  const double before = accepted_length(terms.k, alpha);
  const double after = accepted_length(terms.k, std::min(alpha + gain, 1.0));
  return (1 - before / after) * std::clamp(topic.token_share, 0.0, 1.0) * terms.payback_s;
}

double seconds_spent(const TopicProgress& topic, const PaybackTerms& terms) {
  const double step_s = topic.step_seconds > 0 ? topic.step_seconds : kUnknownStepSeconds;
  return kHorizonSteps * step_s * terms.lease_cost;
}

StepDecision begin_trial(const TopicProgress& topic, TopicPause& pause, const char* reason, double gain) {
  pause.stopped = false;
  pause.trial_until_step = topic.steps_done + kTrialSteps;
  return {true, reason, gain};
}

// What a topic that has stopped waits for; `worth` and `flat` are of its curve now.
StepDecision look_again(const TopicProgress& topic, TopicPause& pause, double gain) {
  if (topic.alpha_live < pause.alpha_at_stop - kAlphaFall) {
    pause.requests_to_wait = kFirstWait;
    return begin_trial(topic, pause, "the live draft's acceptance fell", gain);
  }
  if (topic.requests_seen >= pause.requests_at_stop + pause.requests_to_wait) {
    pause.requests_to_wait = std::min(2 * pause.requests_to_wait, kLongestWait);
    return begin_trial(topic, pause, "tries whether new requests teach more", gain);
  }
  return {false, gain < kFlatGain ? "the curve is flat" : "the gain would not pay back", gain};
}

}  // namespace

double accepted_length(int k, double alpha) {
  double length = 1, power = 1;
  for (int depth = 1; depth <= k; ++depth) {
    power *= alpha;
    length += power;
  }
  return length;
}

StepDecision decide_training(const TopicProgress& topic, const PaybackTerms& terms, TopicPause& pause) {
  static const LearningCurve kUnknown;
  const LearningCurve& curve = topic.curve != nullptr ? *topic.curve : kUnknown;
  const double gain = curve.predicted_gain(kHorizonSteps);
  if (!within_cadence(terms.steps_per_request, topic.requests_seen, topic.steps_done)) {
    return {false, "waits for requests", gain};
  }
  if (topic.steps_done < pause.trial_until_step) return {true, "trains to measure the curve", gain};
  if (gain >= kFlatGain && seconds_saved(topic, terms, gain) >= seconds_spent(topic, terms)) {
    if (!pause.stopped) pause.requests_to_wait = kFirstWait;
    pause.stopped = false;
    return {true, "the predicted gain pays back", gain};
  }
  if (pause.stopped) {
    pause.alpha_at_stop = std::max(pause.alpha_at_stop, topic.alpha_live);
    return look_again(topic, pause, gain);
  }
  pause.stopped = true;
  pause.requests_at_stop = topic.requests_seen;
  pause.alpha_at_stop = topic.alpha_live;
  return {false, gain < kFlatGain ? "the curve is flat" : "the gain would not pay back", gain};
}

}  // namespace slip
