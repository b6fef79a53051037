// SPDX-License-Identifier: Apache-2.0
#include "distill/payback_governor.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

#include "distill/learning_units.h"
#include "distill/sample_ring.h"
#include "distill/training_payback.h"

namespace slip {
namespace {

// An engine that was busy for less than this share of the last seconds has enough idle time for learning. Leases would
// only lengthen the time between tokens.
constexpr double kBusyShare = 0.9;
// One that was idle for longer than this in the last minute has, too. Clients that never pause leave it .5 s a minute.
// Where requests come by themselves, it is busy for seconds at a time even below its capacity, and then requests queue:
// a lease would delay all of them.
constexpr std::int64_t kMostIdleUs = 2'000'000;
// Optimizer steps per request while the engine is busy, early and late. Against one step a request, after 120 requests
// of sql or code, three for four lose .005 of α, one for two .008 and one for three .03 (bench/ablate).
constexpr double kBusySteps = 1, kLateBusySteps = 0.375;
constexpr double kLateRequests = 48;
constexpr std::int64_t kLongestPromptUs = 2'000'000;  // after this wait, training runs beside prompts
constexpr std::int64_t kBusySampleUs = 500'000, kMinuteSampleUs = 2'000'000, kMinuteUs = 60'000'000;
constexpr std::size_t kBusySamples = 11;  // the last five seconds
constexpr std::size_t kMinuteSamples = kMinuteUs / kMinuteSampleUs + 1;
constexpr std::int64_t kLongestSilenceUs = 2'000'000;  // a learner with traffic has something to do more often

// Optimizer steps per request of a topic while the engine is busy; falls with the number of requests.
double busy_steps(std::uint64_t answers_seen) noexcept {
  const double early = std::min(1.0, kLateRequests / std::max(static_cast<double>(answers_seen), 1.0));
  return kLateBusySteps + (kBusySteps - kLateBusySteps) * early;
}

// The share of the last five seconds and of the last minute that the engine spent in steps. At half of a service's
// capacity a single second is often all busy, but rarely five of them. Leaves out stretches in which the learner asked
// for nothing, as when learning is switched off: it could not have used them.
class BusyShare {
 public:
  void update(std::int64_t now_us, std::int64_t busy_us) noexcept {
    if (now_us - last_ask_.at_us < kLongestSilenceUs) {
      so_far_.at_us += now_us - last_ask_.at_us;
      so_far_.busy_us += busy_us - last_ask_.busy_us;
    }
    last_ask_ = {now_us, busy_us};
    seconds_.add(so_far_);
    minute_.add(so_far_);
  }
  // Of the last five seconds. 0 in the first five: a service that starts into a rush of requests would only prolong it
  // by training.
  double share() const noexcept {
    if (!seconds_.full()) return 0;
    const Times &oldest = seconds_.oldest(), &newest = seconds_.newest();
    return static_cast<double>(newest.busy_us - oldest.busy_us) / static_cast<double>(newest.at_us - oldest.at_us);
  }
  // Whether the engine had next to no idle time, in the last five seconds and in the last minute, or since the start if
  // it may be `early`.
  bool saturated(bool early) const noexcept {
    if (!early && !minute_.full()) return false;
    const Times& start = minute_.oldest();
    const std::int64_t idle_us = (so_far_.at_us - start.at_us) - (so_far_.busy_us - start.busy_us);
    return share() >= kBusyShare && idle_us <= kMostIdleUs;
  }

 private:
  struct Times {
    std::int64_t at_us = 0, busy_us = 0;
  };
  Times last_ask_, so_far_;
  SampleRing<Times, kBusySamples> seconds_{kBusySampleUs};
  SampleRing<Times, kMinuteSamples> minute_{kMinuteSampleUs};
};

class PaybackGovernor final : public Governor {
 public:
  PaybackGovernor(const PaybackOptions& options, CoreSharing& cores, std::int64_t (*now_us)())
      : options_(options),
        now_us_(now_us),
        units_(&cores, now_us),
        budget_(options.max_share, static_cast<std::int64_t>(options.burst_s * 1e6), units_.busy_us()) {}

  bool allow_unit(LearningUnit unit) noexcept override {
    const std::int64_t now = now_us_();
    const std::int64_t busy_us = units_.busy_us();
    budget_.refill(busy_us);
    budget_.spend(units_.take_cost_us());
    busy_.update(now, busy_us);
    if (units_.engine_idle()) return units_.grant();
    if (unit == LearningUnit::kScoringInGaps) return units_.grant_gaps();
    const bool trains = !is_scoring(unit);
    if (!saturated(now)) return trains ? units_.refuse("waits for idle cores") : units_.grant_gaps();
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
    const std::int64_t now = now_us_();
    busy_.update(now, units_.busy_us());  // while no step is allowed, the learner asks for no unit
    if (topic.topic >= pauses_.size()) pauses_.resize(topic.topic + 1);
    // Uses the time before, not this instant, since every engine is idle between two steps.
    const double most = options_.steps_per_request;
    const PaybackTerms terms{.payback_s = options_.payback_s,
                             .steps_per_request = most,
                             .busy_steps_per_request = std::min(most, busy_steps(topic.answers_seen)),
                             .busy = saturated(now),
                             .decode = units_.decode_time(),
                             .lease_cost = units_.lease_cost() * busy_.share()};
    return decide_training(topic, terms, pauses_[topic.topic]);
  }

  bool engine_idle() const noexcept override { return units_.engine_idle() && busy_.share() < kBusyShare; }
  std::int64_t idle_us() const noexcept override { return units_.idle_us(); }
  double share_of_service() const noexcept override { return units_.share_of_service(); }
  double cost_tokens_per_s() const noexcept override { return units_.cost_tokens_per_s(); }
  const char* reason() const noexcept override { return units_.reason(); }

  void on_step(const StepFigures& figures) noexcept override {
    if (figures.n_waiting > 0) last_wait_us_.store(figures.at_us, std::memory_order_relaxed);
  }

 private:
  // Requests that wait for a place may be a burst, which leases prolong, or clients that never pause. A minute tells.
  bool saturated(std::int64_t now) const noexcept {
    return busy_.saturated(/*early=*/now - last_wait_us_.load(std::memory_order_relaxed) > kMinuteUs);
  }

  const PaybackOptions options_;
  std::int64_t (*const now_us_)();
  std::atomic<std::int64_t> last_wait_us_{-kMinuteUs};  // written by the engine thread
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
