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

// A unit of the learner's work: one scoring pass (4 to 15 ms), or one part of an optimizer step (up to about 5 ms of
// 50).
enum class LearningUnit {
  kScoring,        // with cores of its own
  kScoringInGaps,  // only while the engine's other threads wait for its first one
  kTraining,       // the beginning of a step
  kTrainingRest    // a later part of it
};

constexpr bool is_scoring(LearningUnit unit) noexcept {
  return unit == LearningUnit::kScoring || unit == LearningUnit::kScoringInGaps;
}

// A topic's state, for the decision about its next optimizer step. Plain data.
struct TopicProgress {
  std::size_t topic = 0;                 // index of the topic, the same in every call
  std::uint64_t answers_seen = 0;        // finished since the start, sampled ones included
  std::uint64_t steps_done = 0;          // optimizer steps since the start
  const LearningCurve* curve = nullptr;  // null: no measurement yet
  double step_seconds = 0;               // time of the learner's thread per optimizer step; 0: unknown
  double step_share = 1;                 // the share of the target's steps that this topic's answers take, 0 to 1
  double alpha_live = 0;                 // acceptance rate of the live draft on the latest text
};

struct StepDecision {
  bool allowed = false;
  const char* reason = "";     // for people; one line, a string literal
  double predicted_gain = 0;   // gain of α over the next 40 steps, predicted by the topic's curve
  bool lacks_answers = false;  // not allowed for want of answers: with more of them, a step would pay
};

// Decides before each unit of learning whether it may run now, and assigns its cores. Threads: the engine thread
// reports steps; all other calls come on the learner's thread.
class Governor : public StepListener {
 public:
  // True: the caller does one such unit now. Then it asks for the next one, which keeps the cores, or calls
  // unit_done(). False: it calls unit_done() if it had a unit, and asks again later.
  virtual bool allow_unit(LearningUnit unit) noexcept = 0;
  // Ends the units that allow_unit() granted, and gives their cores back to the engine.
  virtual void unit_done() noexcept = 0;
  // Whether an optimizer step of this topic may begin. A repeated call without new facts gives the same answer.
  virtual StepDecision allow_step(const TopicProgress& topic) noexcept = 0;
  // False while the engine is busy. Work that can wait should then wait for a pause.
  virtual bool engine_idle() const noexcept { return true; }
  // Time since the engine's last step for a client, in µs. 0 during such a step, and from a governor that knows no
  // engine.
  virtual std::int64_t idle_us() const noexcept { return 0; }
  // The cost of learning to the service over the last minute: as a share of the engine's busy time, 0 to 1, and in
  // tokens/s.
  virtual double share_of_service() const noexcept { return 0; }
  virtual double cost_tokens_per_s() const noexcept { return 0; }
  // The reason why the last unit was refused, for people; "" when it was granted.
  virtual const char* reason() const noexcept { return ""; }
};

// Whether a topic may begin another step, at `steps_per_request` optimizer steps for each finished answer. Pure.
bool within_cadence(double steps_per_request, std::uint64_t answers_seen, std::uint64_t steps_done);

// A governor that bounds latency: with training, the p99 inter-token latency of decode steps stays within 1 +
// `latency_slack` times its value without training. Refuses training while requests wait for admission. Scoring always
// gets 1 % of the time. `cores` may be null, as in tests; units then get no lease.
std::unique_ptr<Governor> make_slack_governor(double latency_slack, double steps_per_request,
                                              std::int64_t (*now_us)() = monotonic_us, CoreSharing* cores = nullptr);
// A deterministic governor for tests and benchmarks: grants `steps_per_request` optimizer steps for each finished
// request of the topic, independent of the load. Every unit gets a lease.
std::unique_ptr<Governor> make_steps_per_request_governor(double steps_per_request, CoreSharing* cores = nullptr);

}  // namespace slip
