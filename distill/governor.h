// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/clock.h"
#include "distill/canary/learning_curve.h"
#include "engine/core_sharing.h"
#include "engine/step_listener.h"

namespace slip {

// A unit of the learner's work: one scoring pass (4 to 15 ms), with cores of its own or while the engine's other
// threads wait for its first one, or one microbatch of an optimizer step (20 to 80 ms), the step's first or a further
// one.
enum class LearningUnit { kScoring, kScoringInGaps, kTraining, kTrainingRest };

constexpr bool is_scoring(LearningUnit unit) noexcept {
  return unit == LearningUnit::kScoring || unit == LearningUnit::kScoringInGaps;
}

// What a governor needs to know of a topic before its next optimizer step. Plain data.
struct TopicProgress {
  std::size_t topic = 0;                 // index of the topic, the same in every call
  std::uint64_t requests_seen = 0;       // finished answers since the start
  std::uint64_t steps_done = 0;          // optimizer steps since the start
  const LearningCurve* curve = nullptr;  // null: nothing has been measured
  double step_seconds = 0;               // of the learner's thread, for one optimizer step; 0: unknown
  double token_share = 1;                // of the tokens served lately, this topic's, 0 to 1
  double alpha_live = 0;                 // of the live draft on the latest text
};

struct StepDecision {
  bool allowed = false;
  const char* reason = "";    // for people, one line; a literal
  double predicted_gain = 0;  // of α over the next 40 steps, by the topic's curve
};

// Decides before each unit of learning whether it may run now, and gives it its cores. Threads: steps come from the
// engine thread; everything else is called on the learner's thread.
class Governor : public StepListener {
 public:
  // True: do one such unit now, then call unit_done(). False: ask again later.
  virtual bool allow_unit(LearningUnit unit) noexcept = 0;
  // The unit that allow_unit() granted is over; gives its cores back to the engine.
  virtual void unit_done() noexcept = 0;
  // Whether an optimizer step of this topic may begin. Asking again without new facts gives the same answer.
  virtual StepDecision allow_step(const TopicProgress& topic) noexcept = 0;
  // False while the engine is busy: work that can wait for a pause should.
  virtual bool engine_idle() const noexcept { return true; }
  // What learning cost the service over the last minute: as a share of the engine's busy time, 0 to 1, and in tokens/s.
  virtual double share_of_service() const noexcept { return 0; }
  virtual double cost_tokens_per_s() const noexcept { return 0; }
  // Why the last unit was refused, for people; "" when it was granted.
  virtual const char* reason() const noexcept { return ""; }
};

// True: a topic with so many requests may begin another step, at `steps_per_request` steps for each. Pure.
bool within_cadence(double steps_per_request, std::uint64_t requests_seen, std::uint64_t steps_done);

// Serving comes first: p99 inter-token latency of decode steps stays within 1 + `latency_slack` of what it is without
// training. No training while requests wait for admission; scoring keeps 1 % of the time. `cores` may be null, as in
// tests; then units get no lease.
std::unique_ptr<Governor> make_slack_governor(double latency_slack, double steps_per_request,
                                              std::int64_t (*now_us)() = monotonic_us, CoreSharing* cores = nullptr);
// Deterministic, for tests and benchmarks: `steps_per_request` optimizer steps for each finished request of the topic,
// whatever the load; every unit has a lease.
std::unique_ptr<Governor> make_steps_per_request_governor(double steps_per_request, CoreSharing* cores = nullptr);

}  // namespace slip
