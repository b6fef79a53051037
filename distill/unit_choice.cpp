// SPDX-License-Identifier: Apache-2.0
#include "distill/unit_choice.h"

#include <algorithm>
#include <limits>
#include <string>

#include "common/clock.h"
#include "distill/learner.h"

namespace slip {
namespace {

constexpr std::size_t kScoredTogether = 8;              // this number of waiting records is worth a lease
constexpr std::int64_t kLongestUnscoredUs = 5'000'000;  // longest time that a record waits for others
constexpr std::uint64_t kBurstSteps = 8;                // steps of one topic before another may have its turn
constexpr std::uint64_t kScoredFirst = 4;               // a topic's first ones, all scored: they show what is to learn
constexpr std::size_t kWatchedClosely = 48;             // requests after a publication that are all scored
constexpr std::uint64_t kSampledOf = 4;                 // one in 4 is scored under load when no decision is pending

// Whether scoring has failed lately. Its topic then does not train either: it would train on text that is not scored.
bool scoring_waits(const TopicState& topic, std::int64_t now_us) {
  return topic.scoring_failures.retry_us > now_us;
}

// Whether the topic does not train before its next try.
bool training_waits(const TopicState& topic, std::int64_t now_us) {
  return topic.training_failures.retry_us > now_us || scoring_waits(topic, now_us);
}

void start_curve(TopicState& topic) {
  const double alpha = topic.recent_live.alpha(), alone = topic.recent_live.alpha_alone();
  topic.curve = LearningCurve(alone, alone < 1 ? std::min(1.0, (1 - alpha) / (1 - alone)) : 1);
}

}  // namespace

// While the engine is busy and no decision is pending, a quarter of the records is enough to follow the live draft's
// acceptance rate.
bool UnitChoice::worth_scoring(const TopicState& topic) const {
  if (topic.scoring_failures.given_up()) return false;
  const bool decides = topic.candidate.has_value() || topic.requests_seen <= kScoredFirst ||
                       (topic.live.version->weights.get() != &base_ && topic.against_base.size() < kWatchedClosely);
  return decides || governor_.engine_idle() || topic.requests_seen % kSampledOf == 0;
}

// Picks the topic with the fewest scored records, so that a busy topic does not delay the others.
TopicState* UnitChoice::topic_to_score() {
  TopicState* next = nullptr;
  const std::int64_t now_us = monotonic_us();
  for (TopicState& topic : topics_) {
    if (scoring_waits(topic, now_us)) continue;
    const bool waits = !topic.unscored.empty() || (topic.candidate && !topic.candidate->heldout_left.empty());
    if (waits && (next == nullptr || topic.scored < next->scored)) next = &topic;
  }
  return next;
}

// The expected gain of the topic's next steps for the service: the gain of α, weighted by the topic's share of steps.
double UnitChoice::value_of(const TopicState& topic) const {
  return topic.figures.predicted_gain * step_share_of(topic);
}

// A topic without a scored answer counts with the longest of the others.
double UnitChoice::step_share_of(const TopicState& topic) const {
  double longest = 1;
  for (const TopicState& one : topics_) longest = std::max(longest, one.steps_per_answer);
  const auto steps = [longest](const TopicState& one) {
    return static_cast<double>(one.requests_seen) * (one.steps_per_answer > 0 ? one.steps_per_answer : longest);
  };
  double all = 0;
  for (const TopicState& one : topics_) all += steps(one);
  return all > 0 ? steps(topic) / all : 0;
}

// Picks the topic whose next steps have the highest value. It keeps its turn for kBurstSteps, since a change of topics
// may load a trainer from disk. A topic may begin once it has a batch of new requests, and continues while the governor
// allows steps.
TopicState* UnitChoice::topic_to_train() {
  TopicState* best = nullptr;
  double best_value = 0;
  const std::int64_t now_us = monotonic_us();
  const auto waiting = [](const TopicState& topic) { return topic.answers_seen() - topic.answers_at_burst; };
  for (TopicState& topic : topics_) {
    topic.lacks_answers = false;
    if (topic.starved || topic.requests_seen == 0 || training_waits(topic, now_us)) continue;
    if (topic.steps_done == 0 && topic.curve.empty()) start_curve(topic);
    const StepDecision decision = governor_.allow_step(progress_of(topic));
    topic.figures.state = decision.allowed ? "training" : decision.reason;
    topic.lacks_answers = decision.lacks_answers;
    if (!decision.allowed) {
      if (topic.in_burst) topic.answers_at_burst = topic.answers_seen();
      topic.in_burst = false;
      continue;
    }
    topic.figures.predicted_gain = decision.predicted_gain;
    const AwaitedAnswers awaited = awaited_answers(topic);
    if (!topic.in_burst && awaited.missing() > 0) {
      topic.figures.state =
          "waits for requests: " + std::to_string(awaited.have) + " of " + std::to_string(awaited.needed);
      topic.lacks_answers = true;
      continue;
    }
    if (&topic == training_ && burst_steps_ < kBurstSteps) return &topic;
    const double value = value_of(topic);
    if (best != nullptr && (value < best_value || (value == best_value && waiting(topic) <= waiting(*best)))) continue;
    best = &topic;
    best_value = value;
  }
  return best;
}

// A topic whose last export was abandoned. The governor may allow it no further step.
TopicState* UnitChoice::topic_to_export() {
  const std::int64_t now_us = monotonic_us();
  const auto found = std::find_if(topics_.begin(), topics_.end(), [&](const TopicState& topic) {
    return topic.export_waits && !training_waits(topic, now_us);
  });
  return found == topics_.end() ? nullptr : &*found;
}

// A burst waits for a batch of new answers, the first step for kFirstBatches, the records of earlier runs included. Of
// the two, the one that lacks more.
UnitChoice::AwaitedAnswers UnitChoice::awaited_answers(const TopicState& topic) const {
  const auto batch = static_cast<std::uint64_t>(batch_requests_);
  const AwaitedAnswers burst{topic.answers_seen() - topic.answers_at_burst, batch};
  const AwaitedAnswers first_step{topic.records_before + topic.answers_seen(), kFirstBatches * batch};
  return topic.steps_done > 0 || first_step.missing() <= burst.missing() ? burst : first_step;
}

TopicProgress UnitChoice::progress_of(const TopicState& topic) const {
  TopicProgress progress;
  progress.topic = static_cast<std::size_t>(&topic - topics_.data());
  progress.answers_seen = topic.answers_seen();
  progress.steps_done = topic.steps_done;
  progress.curve = &topic.curve;
  progress.step_seconds = topic.step_seconds;
  for (const TopicState& other : topics_) {  // a topic that has not trained is assumed to cost as much as the others
    if (topic.step_seconds == 0) progress.step_seconds = std::max(progress.step_seconds, other.step_seconds);
  }
  progress.step_share = step_share_of(topic);
  progress.alpha_live = topic.figures.alpha_live;
  return progress;
}

// Whether scoring is due even with a lease. A lease slows down a whole engine step, however short the unit is. So while
// the engine is busy, records are scored in its gaps. They are scored with a lease once several wait, once one has
// waited long, or when a publication waits for held-out scores.
bool UnitChoice::scoring_is_due() const {
  std::size_t n_waiting = 0;
  const std::int64_t now_us = monotonic_us();
  std::int64_t since_us = std::numeric_limits<std::int64_t>::max();
  for (const TopicState& topic : topics_) {
    if (scoring_waits(topic, now_us)) continue;
    if (topic.candidate && !topic.candidate->heldout_left.empty()) return true;
    n_waiting += topic.unscored.size();
    if (!topic.unscored.empty()) since_us = std::min(since_us, topic.unscored.front().since_us);
  }
  if (n_waiting == 0) return false;
  return n_waiting >= kScoredTogether || governor_.engine_idle() || now_us - since_us > kLongestUnscoredUs;
}

TopicState* UnitChoice::topic_to_sample() {
  TopicState* best = nullptr;
  double best_value = 0;
  for (TopicState& topic : topics_) {
    if (!topic.lacks_answers || topic.sampler.empty()) continue;
    const double value = value_of(topic);
    if (best != nullptr && value <= best_value) continue;
    best = &topic;
    best_value = value;
  }
  return best;
}

std::optional<LearningUnit> UnitChoice::next_unit(bool may_score, bool may_train) {
  scoring_ = may_score && (scoring_ || scoring_is_due());
  if (scoring_) return LearningUnit::kScoring;
  if (may_train && (topic_to_train() != nullptr || topic_to_export() != nullptr)) return LearningUnit::kTraining;
  return may_score ? std::optional(LearningUnit::kScoringInGaps) : std::nullopt;
}

void UnitChoice::begin_step(TopicState& topic) {
  burst_steps_ = &topic == training_ && burst_steps_ < kBurstSteps ? burst_steps_ + 1 : 1;
  training_ = &topic;
  topic.in_burst = true;
}

}  // namespace slip
