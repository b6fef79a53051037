// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/step_times.h"

#include <algorithm>

namespace slip {
namespace {

constexpr double kTie = 1.03;       // up to 3 % longer steps do not justify more threads
constexpr double kWorthAll = 1.05;  // switch back to all threads from here on; the gap to kTie is a hysteresis
constexpr double kReferenceRate = 1.0 / 8;
constexpr double kRatioRate = 1.0 / 16;
constexpr std::int64_t kReferenceSteps = 4;  // steps before ratios to the reference are used
constexpr std::int64_t kFirstTrials = 6;     // trials before the choice follows them
constexpr std::int64_t kFirstInterval = 4, kCloseInterval = 64, kClearInterval = 256, kObviousInterval = 1024;  // steps
constexpr double kClear = 1.15;  // beyond this ratio, either way, trials are four times as rare
// Two trials in a row that show the other mode this much slower are enough. Each costs a third of a step or more, so
// trials are then 16 times as rare.
constexpr double kObvious = 1.35;
constexpr std::int64_t kObviousTrials = 2;
constexpr double kLeastRatio = 0.5, kMostRatio = 4;  // limits of one sample: the system may have interrupted a step
constexpr double kPriorSteps = 2;                    // the prior slowdown counts as this many leased steps

}  // namespace

void StepTimes::Ratio::add(double sample) noexcept {
  ++n;
  const double rate = std::max(kRatioRate, 1.0 / static_cast<double>(n));
  value += rate * (std::clamp(sample, kLeastRatio, kMostRatio) - value);
}

StepMode StepTimes::plan() noexcept {
  if (!can_choose_ || n_reference_ < kReferenceSteps) return chosen_;
  if (++since_trial_ < trial_interval()) return chosen_;
  since_trial_ = 0;
  return chosen_ == StepMode::kAll ? StepMode::kFewer : StepMode::kAll;
}

std::int64_t StepTimes::trial_interval() const {
  if (obvious_trials_ >= kObviousTrials) return kObviousInterval;
  if (fewer_.n < kFirstTrials) return kFirstInterval;
  const bool clear = fewer_.value > kClear || fewer_.value < 1 / kClear;
  return clear ? kClearInterval : kCloseInterval;
}

void StepTimes::add(StepMode mode, double step_us) noexcept {
  if (step_us <= 0) return;
  if (mode == chosen_) {
    ++n_reference_;
    const double rate = std::max(kReferenceRate, 1.0 / static_cast<double>(n_reference_));
    reference_us_ += rate * (step_us - reference_us_);
    return;
  }
  if (n_reference_ < kReferenceSteps) return;
  if (mode == StepMode::kLeased) return leased_.add(step_us / reference_us_);
  const double ratio = mode == StepMode::kFewer ? step_us / reference_us_ : reference_us_ / step_us;
  const bool obvious = chosen_ == StepMode::kAll ? ratio > kObvious : ratio < 1 / kObvious;
  obvious_trials_ = obvious ? obvious_trials_ + 1 : 0;
  fewer_.add(ratio);
  choose();
}

void StepTimes::choose() noexcept {
  if (fewer_.n < kFirstTrials) return;
  const StepMode better = fewer_.value <= kTie        ? StepMode::kFewer
                          : fewer_.value >= kWorthAll ? StepMode::kAll
                                                      : chosen_;
  if (better == chosen_) return;
  const double change = better == StepMode::kFewer ? fewer_.value : 1 / fewer_.value;
  chosen_ = better;
  reference_us_ *= change;
  leased_.value /= change;
}

double StepTimes::slowdown() const {
  const auto n = static_cast<double>(leased_.n);
  const double slowdown = (kPriorSteps * slowdown_ + n * leased_.value) / (kPriorSteps + n);
  return slowdown <= kTie ? 1 : slowdown;
}

}  // namespace slip
