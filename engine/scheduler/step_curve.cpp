// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/step_curve.h"

#include <algorithm>
#include <cstddef>

#include "common/error.h"

namespace slip {
namespace {

constexpr double kLevelRate = 1.0 / 8;                      // weight of one pass in the level
constexpr std::int32_t kPromptRows = StepCurve::kRows / 2;  // least rows of a pass that shows the arithmetic of a row
constexpr double kRowRise = 1.01;                           // per pass, so that a slower machine is followed
constexpr double kMostWeight = 32;                          // maximum weight of a ratio, in passes
constexpr double kFade = 1 - 1.0 / 256;         // decay of all weights per pass, so that old measurements are repeated
constexpr double kLeastWeight = 0.5;            // least weight of a ratio that counts as measured
constexpr std::int32_t kTries = 3;              // least passes of a ratio that counts as measured
constexpr double kKeepDrafting = 1 - 1.0 / 64;  // weight of a drafting, relative to the next one's
constexpr double kMostDrafting = 2;             // maximum time that counts, relative to the expected one
constexpr double kLeastVariance = 0.1;          // added to that of passes: the pull towards a line through 0
constexpr double kRowShare = 0.04;              // maximum time of a row beyond the measured ones, as a share of a pass
constexpr double kLeastRowShare = 0.005;        // minimum of the same
constexpr double kHope = 0.95;          // a guess between two measured row counts, relative to linear interpolation
constexpr double kStoredWeight = 2;     // of a ratio that an earlier process measured, in passes
constexpr double kStoredDraftings = 8;  // the same of a line of drafting
constexpr double kMostSample = 4, kMostChange = 1.5;  // samples are clamped to these factors of the expected time
                                                      // (unmeasured, measured ratio): a pass may have been interrupted

// What each row beyond the last measured one adds: the slope of the measured ones' last half. A guess that is too high
// would stay, since no step would have so many rows.
double more_rows_step(const std::array<double, StepCurve::kRows>& all, std::size_t first, std::size_t last) {
  const std::size_t from = std::max(first, last / 2);
  const double slope =
      from == last ? kRowShare * all[last] : (all[last] - all[from]) / static_cast<double>(last - from);
  return std::clamp(slope, kLeastRowShare * all[last], kRowShare * all[last]);
}

}  // namespace

double StepCurve::pass_us(std::int32_t rows) const {
  if (rows <= 0) return 0;
  if (rows <= kRows) return us[static_cast<std::size_t>(rows - 1)];
  return us.back() + more_row_us * (rows - kRows);
}

double StepCurve::row_us(std::int32_t rows) const {
  const std::int32_t from = std::max(1, rows - 4), to = rows + 4;
  return (pass_us(to) - pass_us(from)) / (to - from);
}

double StepCurve::least_row_us(std::int32_t rows) const {
  double least = pass_us(rows + 1) - pass_us(rows);
  for (std::int32_t n = 2; n <= 8; ++n) least = std::min(least, (pass_us(rows + n) - pass_us(rows)) / n);
  return least;
}

// Sums over draftings of 1 to 5 passes that lie where line() gives this line.
DraftTimeEstimate::DraftTimeEstimate(const DraftTime& line) {
  constexpr double kMean = 3, kVariance = 2;
  const double mean_us = line.us(3);
  if (!(mean_us > 0)) return;
  const double covariance = line.pass_us * (kVariance + kLeastVariance) - kLeastVariance * mean_us / kMean;
  n_ = kStoredDraftings;
  passes_ = n_ * kMean;
  us_ = n_ * mean_us;
  passes_passes_ = n_ * (kVariance + kMean * kMean);
  passes_us_ = n_ * (covariance + kMean * mean_us);
}

void DraftTimeEstimate::add(std::int32_t passes, double us) {
  if (passes < 1 || !(us > 0)) return;
  if (n_ > 0) us = std::min(us, kMostDrafting * line().us(passes));
  for (double* sum : {&n_, &passes_, &us_, &passes_passes_, &passes_us_}) *sum *= kKeepDrafting;
  n_ += 1;
  passes_ += passes;
  us_ += us;
  passes_passes_ += static_cast<double>(passes) * passes;
  passes_us_ += passes * us;
}

DraftTime DraftTimeEstimate::line() const {
  if (n_ == 0) return {};
  const double mean_passes = passes_ / n_, mean_us = us_ / n_, through_zero = mean_us / mean_passes;
  const double variance = passes_passes_ / n_ - mean_passes * mean_passes;
  const double covariance = passes_us_ / n_ - mean_passes * mean_us;
  const double slope =
      std::clamp((covariance + kLeastVariance * through_zero) / (variance + kLeastVariance), 0.0, through_zero);
  return {std::max(0.0, mean_us - slope * mean_passes), slope};
}

bool StepCurveEstimate::Ratio::measured() const {
  return weight >= kLeastWeight && n >= kTries;
}

void StepCurveEstimate::Ratio::add(double sample) {
  if (weight < kLeastWeight) *this = {sample, 0, 0};
  weight = std::min(weight + 1, kMostWeight);
  if (++n <= kTries) {
    value = std::min(value, sample);
  } else {
    value += (sample - value) / weight;
  }
}

StepCurveEstimate::StepCurveEstimate(const std::optional<StepCurveState>& measured)
    : drafting_(measured ? measured->drafting : DraftTime{}) {
  if (!measured) return;
  n_ = kLeast;
  level_us_ = measured->level_us;
  row_us_ = measured->prompt_row_us;
  for (const auto& [rows, ratio] : measured->ratios) {
    SLIP_CHECK(rows >= 1 && rows <= StepCurve::kRows, "a state has rows from 1 to StepCurve::kRows");
    ratios_[static_cast<std::size_t>(rows - 1)] = {ratio, kStoredWeight, kTries};
  }
}

std::optional<StepCurveState> StepCurveEstimate::state() const {
  if (!known()) return std::nullopt;
  StepCurveState state{level_us_, row_us_, drafting_.line(), {}};
  for (std::int32_t rows = 1; rows <= StepCurve::kRows; ++rows) {
    const Ratio& ratio = ratios_[static_cast<std::size_t>(rows - 1)];
    if (ratio.measured()) state.ratios[rows] = ratio.value;
  }
  return state;
}

void StepCurveEstimate::add(std::int32_t rows, double verify_us, std::int32_t draft_passes, double draft_us) {
  if (draft_passes > 0) drafting_.add(draft_passes, draft_us);
  if (!(verify_us > 0) || rows < 1 || rows > StepCurve::kRows) return;
  if (++n_added_ <= kCold) return;
  if (n_++ == 0) level_us_ = verify_us;
  const double expected = ratios()[static_cast<std::size_t>(rows - 1)];
  Ratio& ratio = ratios_[static_cast<std::size_t>(rows - 1)];
  const double most = ratio.measured() ? kMostChange : kMostSample;
  const double sample = std::clamp(verify_us / level_us_ / expected, 1 / most, most) * expected;
  for (Ratio& any : ratios_) any.weight *= kFade;
  if (ratio.measured()) level_us_ *= 1 + kLevelRate * (sample / expected - 1);
  ratio.add(sample);
}

void StepCurveEstimate::add_prompts(std::int32_t rows, double verify_us) {
  if (rows < kPromptRows || !(verify_us > 0)) return;
  const double row_us = verify_us / rows;
  row_us_ = row_us_ == 0 ? row_us : std::min(row_us, kRowRise * row_us_);
}

// Of a row count that is not measured, at least; 0 before any pass is.
double StepCurveEstimate::least_ratio(std::size_t rows) const {
  return level_us_ > 0 ? row_us_ / level_us_ * static_cast<double>(rows) : 0;
}

std::array<double, StepCurve::kRows> StepCurveEstimate::ratios() const {
  std::array<double, StepCurve::kRows> all = guessed_ratios();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!ratios_[i].measured()) all[i] = std::max(all[i], least_ratio(i + 1));
  }
  return all;
}

std::array<double, StepCurve::kRows> StepCurveEstimate::guessed_ratios() const {
  std::array<double, StepCurve::kRows> all;
  all.fill(1);
  std::size_t first = all.size(), before = all.size();  // index of the first and last measured one; all.size(): none
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (!ratios_[r].measured()) continue;
    all[r] = ratios_[r].value;
    const double step = before == all.size() ? 0 : (all[r] - all[before]) / static_cast<double>(r - before);
    for (std::size_t i = before == all.size() ? 0 : before + 1; i < r; ++i) {
      const double between = all[r] - step * static_cast<double>(r - i);
      // Row counts below the smallest measured one are assumed to save 1 % until measured.
      all[i] = before == all.size() ? all[r] * (1 - kRowShare / 4) : std::max(all[before], kHope * between);
    }
    first = std::min(first, r);
    before = r;
  }
  if (before == all.size()) return all;
  const double step = more_rows_step(all, first, before);
  for (std::size_t i = before + 1; i < all.size(); ++i) {
    all[i] = all[before] + step * static_cast<double>(i - before);
  }
  return all;
}

// Isotonic regression, pooling adjacent violators: more rows never make a pass faster.
StepCurve StepCurveEstimate::curve() const {
  constexpr double kGuessWeight = 0.01;
  struct Pool {
    double value, weight;
    std::size_t n;
  };
  const std::array<double, StepCurve::kRows> all = ratios();
  std::array<Pool, StepCurve::kRows> pools;
  std::size_t n_pools = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    Pool next{all[r], std::max(ratios_[r].weight, kGuessWeight), 1};
    while (n_pools > 0 && pools[n_pools - 1].value > next.value) {
      const Pool& last = pools[--n_pools];
      const double weight = last.weight + next.weight;
      next = {(last.value * last.weight + next.value * next.weight) / weight, weight, last.n + next.n};
    }
    pools[n_pools++] = next;
  }
  StepCurve curve;
  std::size_t r = 0;
  for (std::size_t p = 0; p < n_pools; ++p) {
    for (std::size_t i = 0; i < pools[p].n; ++i) curve.us[r++] = level_us_ * pools[p].value;
  }
  constexpr std::size_t kHalf = StepCurve::kRows / 2;
  curve.more_row_us =
      std::max({kLeastRowShare * curve.us.front(), (curve.us.back() - curve.us[kHalf - 1]) / kHalf, row_us_});
  curve.drafting = drafting_.line();
  return curve;
}

}  // namespace slip
