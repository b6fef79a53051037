// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distill/governor.h"
#include "distill/sample_ring.h"
#include "distill/time_budget.h"

namespace slip {

// The common part of all governors: leases for granted units, the guaranteed time share of scoring, and the cost of
// learning to the service. Threads: the learner's only.
class LearningUnits {
 public:
  static constexpr double kScoringShare = 0.01;  // of all time, also under saturation

  // `cores` null: no engine shares its cores, so nothing is leased and the cost is 0.
  LearningUnits(CoreSharing* cores, std::int64_t (*now_us)());

  // True when no engine step runs: a unit then costs nothing.
  bool engine_idle() const noexcept { return cores_ == nullptr || cores_->idle(); }
  std::int64_t idle_us() const noexcept { return cores_ == nullptr ? 0 : cores_->idle_us(); }
  // Whether the engine reads a prompt. That takes all cores: a unit beside it would slow it down and make little
  // progress.
  bool reads_prompt() const noexcept { return cores_ != nullptr && cores_->reads_prompt(); }
  double lease_cost() const noexcept { return cores_ == nullptr ? 0 : cores_->lease_cost(); }
  DecodeTime decode_time() const noexcept {
    return cores_ == nullptr ? DecodeTime::of_chain(3) : cores_->decode_time();
  }
  // Grants the unit: without a lease when the engine is idle, with one when it is busy. A unit that is granted before
  // done() follows the last one without a gap.
  bool grant() noexcept;
  // Grants the unit no core, only the gaps in which the engine's other threads wait for its first one.
  bool grant_gaps() noexcept;
  // Grants a scoring unit from its guaranteed share, if any is left.
  bool grant_guaranteed() noexcept;
  bool refuse(const char* reason) noexcept;
  void done() noexcept;

  // The cost since the last call, in µs of the engine's steps.
  std::int64_t take_cost_us() noexcept;
  // Time of the engine's steps since the start, in µs.
  std::int64_t busy_us() const noexcept { return cores_ == nullptr ? 0 : cores_->totals().busy_us; }
  double share_of_service() const noexcept;
  double cost_tokens_per_s() const noexcept;
  const char* reason() const noexcept { return reason_; }

 private:
  bool begin(bool with_lease) noexcept;
  void settle() noexcept;  // pays for the last unit

  struct Sample {
    std::int64_t at_us = 0;
    CoreSharing::Totals totals;
  };
  Sample take_sample() const noexcept;
  // The differences between the oldest sample and now; zero without cores.
  Sample last_minute() const noexcept;

  CoreSharing* const cores_;
  std::int64_t (*const now_us_)();
  TimeBudget guaranteed_;
  std::int64_t guaranteed_since_us_ = -1;  // ≥ 0: start of the current unit, paid from the guaranteed share
  std::int64_t cost_taken_us_ = 0;
  const char* reason_ = "";
  mutable SampleRing<Sample, 61> samples_{1'000'000};  // of the last minute
};

}  // namespace slip
