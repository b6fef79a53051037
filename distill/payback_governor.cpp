// SPDX-License-Identifier: Apache-2.0
#include "distill/payback_governor.h"

#include <algorithm>
#include <vector>

#include "distill/learning_units.h"
#include "distill/training_payback.h"

namespace slip {
namespace {

constexpr double kBusyShare = 0.75;  // share of the time; below it the engine has enough idle time for training
// Optimizer steps per request while the engine is busy, early and late. Against one step a request, after 120 requests
// of sql or code, three for four lose .005 of α, one for two .008 and one for three .03 (bench/ablate).
constexpr double kBusySteps = 0.75, kLateBusySteps = 0.375;
constexpr double kLateRequests = 48;
constexpr std::int64_t kLongestPromptUs = 2'000'000;  // after this wait, training runs beside prompts
constexpr std::int64_t kBusySampleUs = 500'000;

// Optimizer steps per request of a topic while the engine is busy; falls with the number of requests.
double busy_steps(std::uint64_t requests_seen) noexcept {
  const double early = std::min(1.0, kLateRequests / std::max(static_cast<double>(requests_seen), 1.0));
  return kLateBusySteps + (kBusySteps - kLateBusySteps) * early;
}

// The share of time that the engine spent in steps over the last second or two. It rises at once and falls slowly,
// since a busy engine has no idle time for training.
class BusyShare {
 public:
  explicit BusyShare(std::int64_t now_us) : at_us_(now_us) {}
  void update(std::int64_t now_us, std::int64_t busy_us) noexcept {
    if (now_us - at_us_ < kBusySampleUs) return;
    const double latest = static_cast<double>(busy_us - busy_us_) / static_cast<double>(now_us - at_us_);
    share_ = std::max(latest, (share_ + latest) / 2);
    at_us_ = now_us;
    busy_us_ = busy_us;
  }
  double share() const noexcept { return share_; }

 private:
  std::int64_t at_us_, busy_us_ = 0;
  double share_ = 1;  // so that a new service may train before anything was measured
};

class PaybackGovernor final : public Governor {
 public:
  PaybackGovernor(const PaybackOptions& options, CoreSharing& cores, std::int64_t (*now_us)())
      : options_(options),
        now_us_(now_us),
        units_(&cores, now_us),
        budget_(options.max_share, static_cast<std::int64_t>(options.burst_s * 1e6), units_.busy_us()),
        busy_(now_us()) {}

  bool allow_unit(LearningUnit unit) noexcept override {
    const std::int64_t now = now_us_();
    const std::int64_t busy_us = units_.busy_us();
    budget_.refill(busy_us);
    budget_.spend(units_.take_cost_us());
    busy_.update(now, busy_us);
    if (units_.engine_idle()) return units_.grant();
    if (unit == LearningUnit::kScoringInGaps) return units_.grant_gaps();
    const bool trains = !is_scoring(unit);
    if (trains && busy_.share() < kBusyShare) return units_.refuse("waits for idle cores");
    if (trains && units_.reads_prompt() && now - trained_us_ < kLongestPromptUs) {
      return units_.refuse("waits for a prompt to be read");
    }
    if (budget_.any_left() || (unit == LearningUnit::kTrainingRest && !budget_.exhausted())) {
      if (trains) trained_us_ = now;
      return units_.grant();
    }
    if (trains) return units_.refuse("over learning.max_share");
    return units_.grant_guaranteed() || units_.refuse("scoring has used its share of the time");
  }
  void unit_done() noexcept override { units_.done(); }

  StepDecision allow_step(const TopicProgress& topic) noexcept override {
    if (topic.topic >= pauses_.size()) pauses_.resize(topic.topic + 1);
    // Uses the last second, not this instant, since every engine is idle between two steps.
    const double most = options_.steps_per_request;
    const double steps = busy_.share() < kBusyShare ? most : std::min(most, busy_steps(topic.requests_seen));
    const PaybackTerms terms{options_.payback_s, steps, units_.decode_time(), units_.lease_cost() * busy_.share()};
    return decide_training(topic, terms, pauses_[topic.topic]);
  }

  bool engine_idle() const noexcept override { return units_.engine_idle() && busy_.share() < kBusyShare; }
  double share_of_service() const noexcept override { return units_.share_of_service(); }
  double cost_tokens_per_s() const noexcept override { return units_.cost_tokens_per_s(); }
  const char* reason() const noexcept override { return units_.reason(); }
  void on_step(const StepFigures&) noexcept override {}
  void on_finished(const RequestSummary&) noexcept override {}

 private:
  const PaybackOptions options_;
  std::int64_t (*const now_us_)();
  LearningUnits units_;
  TimeBudget budget_;  // is refilled by the time of the engine's steps
  BusyShare busy_;
  std::int64_t trained_us_ = 0;     // time of training's last lease
  std::vector<TopicPause> pauses_;  // [topic]
};

}  // namespace

std::unique_ptr<Governor> make_payback_governor(const PaybackOptions& options, CoreSharing& cores,
                                                std::int64_t (*now_us)()) {
  return std::make_unique<PaybackGovernor>(options, cores, now_us);
}

}  // namespace slip
