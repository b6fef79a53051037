// SPDX-License-Identifier: Apache-2.0
#include "distill/canary/learning_curve.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace slip {
namespace {

constexpr std::size_t kKept = 12;
constexpr double kDecaySteps = 50;  // decay of the prior slope; with Muon, sql and code flatten after 80 to 120 steps
constexpr double kForgettingSteps = 100;  // a measurement this far back has weight 1/e
// Prior slope in α per step of a draft of which nothing is accepted; the total rise is .50. In 24, 48, 96 steps of 8
// requests sql rose from .01 to .37, .42, .48, and code from .08 to .15, .30, .44 (bench/ablate, Muon, one step per
// request).
constexpr double kFirstSlope = 0.010;
constexpr double kLeastSlopeSpread = 0.0002;  // α per step: a seemingly flat curve may still rise by .01
// Standard deviation of the base draft's offset. The first steps on new text add .2 at once to a draft to which that
// text is new, and take .02 from one that knows some of it.
constexpr double kOffsetSpread = 0.1;
constexpr double kFirstSteps = 8;  // a curve rises with log(1 + steps / 8)

struct Slope {
  double mean = 0, precision = 0;
};

double log_steps(double steps) {
  return std::log1p(std::max(steps, 0.0) / kFirstSteps);
}

// Weighted least squares of the rise over log_steps(), plus an offset that all rises from the base draft share.
Slope fit(const std::vector<MeasuredRise>& measured) {
  double sum_xx = 0, sum_xy = 0;
  double base_w = 1 / (kOffsetSpread * kOffsetSpread), base_x = 0, base_y = 0;
  for (const MeasuredRise& one : measured) {
    const double weight = std::exp((one.to_steps - measured.back().to_steps) / kForgettingSteps) /
                          (one.gain.deviation * one.gain.deviation);
    const double x = log_steps(one.to_steps) - log_steps(one.from_steps);
    sum_xx += weight * x * x;
    sum_xy += weight * x * one.gain.mean;
    if (one.from_steps > 0) continue;
    base_w += weight;
    base_x += weight * x;
    base_y += weight * one.gain.mean;
  }
  const double precision = sum_xx - base_x * base_x / base_w;
  return precision > 0 ? Slope{(sum_xy - base_x * base_y / base_w) / precision, precision} : Slope{};
}

}  // namespace

LearningCurve::LearningCurve(double alpha_at_start, double share_drafted) {
  const double left = 1 - std::clamp(alpha_at_start, 0.0, 1.0);
  room_ = share_drafted * left * left * left * left * left;
}

LearningCurve LearningCurve::resumed(double room, const std::vector<MeasuredRise>& measured) {
  LearningCurve curve;
  if (room >= 0 && room <= 1) curve.room_ = room;
  for (const MeasuredRise& one : measured) {
    if (one.from_steps >= 0 && one.from_steps < one.to_steps && std::isfinite(one.to_steps)) curve.add(one);
  }
  return curve;
}

void LearningCurve::add(const MeasuredRise& measured) {
  if (!std::isfinite(measured.gain.mean) || !std::isfinite(measured.gain.deviation) || measured.gain.deviation <= 0) {
    return;
  }
  if (measured.to_steps < latest_steps()) measured_.clear();
  measured_.push_back(measured);
  if (measured_.size() > kKept) measured_.erase(measured_.begin());
}

ExpectedGain LearningCurve::rise(double steps) const {
  if (steps <= 0) return {};
  const double reach = kDecaySteps * (1 - std::exp(-steps / kDecaySteps));
  const double prior_slope = kFirstSlope * room_ * std::exp(-latest_steps() / kDecaySteps);
  const double prior_mean = prior_slope * reach, prior_spread = (prior_slope + kLeastSlopeSpread) * reach;
  const double prior_precision = 1 / (prior_spread * prior_spread);
  const Slope seen = fit(measured_);
  const double log_reach = log_steps(latest_steps() + steps) - log_steps(latest_steps());
  const double seen_precision = seen.precision / (log_reach * log_reach);
  const double precision = prior_precision + seen_precision;
  const double mean = (prior_precision * prior_mean + seen_precision * seen.mean * log_reach) / precision;
  return {mean, 1 / std::sqrt(precision)};
}

double LearningCurve::predicted_gain(double steps) const {
  const ExpectedGain expected = rise(steps);
  if (expected.deviation <= 0) return std::max(expected.mean, 0.0);
  const double z = expected.mean / expected.deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  const double mass = std::erfc(-z / std::numbers::sqrt2) / 2;
  return expected.mean * mass + expected.deviation * density;
}

}  // namespace slip
