// SPDX-License-Identifier: Apache-2.0
#include "distill/training_payback.h"

#include <algorithm>
#include <iterator>

namespace slip {
namespace {

// Horizons in optimizer steps. The longer ones are for poor drafts, whose first gains of α save little time. The last
// decides whether the curve is flat: where training costs nothing, a slow gain is worth having.
constexpr double kHorizons[] = {40, 80, 160};
constexpr double kToldHorizon = kHorizons[0], kFlatHorizon = kHorizons[2];
// A gain must save this many times its cost. Predictions are optimistic, since they count the curve's uncertainty as
// possible gain.
constexpr double kReturn = 2;
constexpr double kFlatGain = 0.003;          // gain of α over kFlatHorizon; less is a flat curve, even at no cost
constexpr double kUnknownStepSeconds = 0.1;  // for a topic that has not trained yet
// A fall of the live draft's α by this much means that the text has changed. α is smoothed over about 20 requests and
// varies by .03.
constexpr double kAlphaFall = 0.15;
constexpr std::uint64_t kSettledRequests = 40;                 // before that the smoothed α is unreliable
constexpr std::uint64_t kFirstWait = 64, kLongestWait = 2048;  // requests between two trials
constexpr std::uint64_t kTrialSteps = 20;
constexpr double kTrialHope = 0.02;  // a trial is worth its cost if this gain of α would pay it back

double seconds_saved(const TopicProgress& topic, const PaybackTerms& terms, double gain) {
  return terms.decode.saved(topic.alpha_live, gain) * std::clamp(topic.step_share, 0.0, 1.0) * terms.payback_s;
}

double seconds_spent(const TopicProgress& topic, const PaybackTerms& terms, double steps) {
  const double step_s = topic.step_seconds > 0 ? topic.step_seconds : kUnknownStepSeconds;
  return steps * step_s * terms.lease_cost;
}

bool pays_back(const TopicProgress& topic, const PaybackTerms& terms, const LearningCurve& curve) {
  return std::any_of(std::begin(kHorizons), std::end(kHorizons), [&](double steps) {
    return seconds_saved(topic, terms, curve.predicted_gain(steps)) >= kReturn * seconds_spent(topic, terms, steps);
  });
}

// The number of steps that a busy engine may take for the topic since the start.
double busy_limit(const TopicProgress& topic, const PaybackTerms& terms) {
  return static_cast<double>(topic.answers_seen) * terms.busy_steps_per_request;
}

bool waits_for_requests(const TopicProgress& topic, const PaybackTerms& terms, const TopicPause& pause) {
  const std::uint64_t answers = topic.answers_seen - pause.requests_forgone;
  if (!within_cadence(terms.steps_per_request, answers, topic.steps_done)) return true;
  constexpr double kRounding = 1e-9;
  const double limit = busy_limit(topic, terms) + pause.busy_limit_shift + kRounding;
  return terms.busy && static_cast<double>(topic.steps_done + 1) > limit;
}

// Called while the engine is idle. Otherwise a topic that took two steps per answer in idle time would take none for
// hundreds of answers once the engine is busy.
void forgive_idle_steps(const TopicProgress& topic, const PaybackTerms& terms, TopicPause& pause) {
  const double beyond = static_cast<double>(topic.steps_done) - busy_limit(topic, terms);
  pause.busy_limit_shift = std::max(std::min(pause.busy_limit_shift, 0.0), beyond);
}

// Of the steps that the requests of the pause would allow, only those of the trial are made up for. All of them at once
// would be hundreds that nothing measures.
StepDecision begin_trial(const TopicProgress& topic, const PaybackTerms& terms, TopicPause& pause, const char* reason,
                         double gain) {
  pause.stopped = false;
  pause.trial_until_step = topic.steps_done + kTrialSteps;
  const double shift = static_cast<double>(pause.trial_until_step) - busy_limit(topic, terms);
  pause.busy_limit_shift = std::min(pause.busy_limit_shift, shift);
  if (terms.steps_per_request > 0) {
    const double spent = static_cast<double>(pause.trial_until_step) / terms.steps_per_request;
    const double unspent = static_cast<double>(topic.answers_seen) - spent;
    pause.requests_forgone = std::max(pause.requests_forgone, static_cast<std::uint64_t>(std::max(unspent, 0.0)));
  }
  return {true, reason, gain};
}

// Whether a stopped topic begins a trial; otherwise `refused`.
StepDecision look_again(const TopicProgress& topic, const PaybackTerms& terms, TopicPause& pause,
                        const StepDecision& refused) {
  if (seconds_saved(topic, terms, kTrialHope) < kReturn * seconds_spent(topic, terms, kTrialSteps)) return refused;
  if (topic.alpha_live < pause.alpha_at_stop - kAlphaFall) {
    pause.requests_to_wait = kFirstWait;
    return begin_trial(topic, terms, pause, "the live draft's acceptance fell", refused.predicted_gain);
  }
  if (topic.answers_seen >= pause.requests_at_stop + pause.requests_to_wait) {
    pause.requests_to_wait = std::min(2 * pause.requests_to_wait, kLongestWait);
    return begin_trial(topic, terms, pause, "tries whether new requests improve the draft", refused.predicted_gain);
  }
  return refused;
}

}  // namespace

StepDecision decide_training(const TopicProgress& topic, const PaybackTerms& terms, TopicPause& pause) {
  static const LearningCurve unknown;
  const LearningCurve& curve = topic.curve != nullptr ? *topic.curve : unknown;
  const double gain = curve.predicted_gain(kToldHorizon);
  const bool is_flat = curve.predicted_gain(kFlatHorizon) < kFlatGain;
  if (!terms.busy) forgive_idle_steps(topic, terms, pause);
  if (waits_for_requests(topic, terms, pause)) {
    const bool measures = topic.steps_done < pause.trial_until_step;
    return {false, "waits for requests", gain, measures || (!pause.stopped && !is_flat)};
  }
  if (topic.steps_done < pause.trial_until_step) return {true, "trains to measure the curve", gain};
  if (!is_flat && pays_back(topic, terms, curve)) {
    if (!pause.stopped) pause.requests_to_wait = kFirstWait;
    pause.stopped = false;
    return {true, "the predicted gain pays back", gain};
  }
  const StepDecision refused{false, is_flat ? "the curve is flat" : "the gain would not pay back", gain};
  if (pause.stopped) {
    const bool settled = topic.answers_seen >= kSettledRequests;
    pause.alpha_at_stop = settled ? std::max(pause.alpha_at_stop, topic.alpha_live) : topic.alpha_live;
    return look_again(topic, terms, pause, refused);
  }
  pause.stopped = true;
  pause.requests_at_stop = topic.answers_seen;
  pause.alpha_at_stop = topic.alpha_live;
  return refused;
}

}  // namespace slip
