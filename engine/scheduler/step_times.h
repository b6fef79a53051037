// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip {

// The threads of a step: all, fewer by choice, or fewer because the learner held a lease.
enum class StepMode { kAll, kFewer, kLeased };

// Smoothed times of the steps of one kind. They decide whether more threads pay, and give the cost of a lease. All
// comparisons are ratios to a reference that follows the last few steps, so that growing contexts and load changes
// cancel out. Pure.
class StepTimes {
 public:
  // `can_choose`: whether a smaller number of threads may be chosen. `prior_slowdown` ≥ 1 is assumed until steps under
  // a lease have been measured.
  StepTimes(bool can_choose, double prior_slowdown) : can_choose_(can_choose), slowdown_(prior_slowdown) {}
  StepTimes() : StepTimes(false, 1) {}

  // The mode of the next step if there is no lease: the chosen one, or now and then the other one as a trial.
  StepMode plan() noexcept;
  // Adds a step of this kind that took `step_us` in the given mode.
  void add(StepMode mode, double step_us) noexcept;

  // kAll or kFewer. kFewer where using all threads saves less than 3 %, so that the other cores are free.
  StepMode chosen() const { return chosen_; }
  // Time of a step under a lease relative to one without, ≥ 1; differences within 3 % count as none.
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
  double reference_us_ = 0;  // in the chosen mode
  std::int64_t n_reference_ = 0;
  std::int64_t since_trial_ = 0;
  Ratio fewer_;                      // time with fewer threads over time with all
  std::int64_t obvious_trials_ = 0;  // in a row, up to the latest, that spoke for the choice
  Ratio leased_;                     // time under a lease over the reference
};

}  // namespace slip
