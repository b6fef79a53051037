// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip {

// The threads of a step: all, fewer by choice, or fewer because the learner held a lease.
enum class StepMode { kAll, kFewer, kLeased };

// Smoothed times of the steps of one kind (StepKind in engine/core_sharing.h). From them it decides whether a step uses
// all threads, and what a lease costs. Times are compared as ratios to a reference, a moving average of the last steps
// in the chosen mode. A longer context or a busier machine changes the reference and leaves the ratios alone. Reads no
// clock. Threads: one owner.
class StepTimes {
 public:
  // `can_choose`: whether kFewer may be chosen. `prior_slowdown` ≥ 1: the assumed slowdown(), with the weight of two
  // measured steps.
  StepTimes(bool can_choose, double prior_slowdown) : can_choose_(can_choose), slowdown_(prior_slowdown) {}
  StepTimes() : StepTimes(false, 1) {}

  // The mode of the next step without a lease: the chosen one, or as a trial the other one. At first every 4th step is
  // a trial, later every 64th to 1024th; the clearer the choice, the rarer.
  StepMode plan() noexcept;
  // Adds a step of this kind that took `step_us` in the given mode. Times ≤ 0 are ignored.
  void add(StepMode mode, double step_us) noexcept;

  // kAll or kFewer. kFewer where it lengthens a step by at most 3 %, so that the other cores are free; kAll again from
  // 5 % on.
  StepMode chosen() const { return chosen_; }
  // Time of a step under a lease divided by that of one without. At least 1; a ratio of up to 1.03 counts as 1.
  double slowdown() const;

 private:
  struct Ratio {
    double value = 1;
    std::int64_t n = 0;
    void add(double sample) noexcept;
  };
  void choose() noexcept;
  std::int64_t trial_interval() const;

  bool can_choose_;
  StepMode chosen_ = StepMode::kAll;
  double slowdown_;          // the prior
  double reference_us_ = 0;  // smoothed time of a step in the chosen mode
  std::int64_t n_reference_ = 0;
  std::int64_t since_trial_ = 0;
  Ratio fewer_;                      // time with fewer threads over time with all
  std::int64_t obvious_trials_ = 0;  // latest trials in a row in which the other mode was over 35 % slower
  Ratio leased_;                     // time under a lease over the reference time
};

}  // namespace slip
