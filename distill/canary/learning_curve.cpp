// SPDX-License-Identifier: Apache-2.0
#include "distill/canary/learning_curve.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

namespace slip {
namespace {

constexpr std::size_t kPoints = 12;
constexpr std::size_t kExportsWithoutStart = 3;  // enough exports for a slope without the start
constexpr double kDecaySteps = 50;  // decay of the prior slope; with Muon, sql and code flatten after 80 to 120 steps
constexpr double kForgettingSteps = 100;  // a point this far back has weight 1/e
// Prior slope in α per step of a draft of which nothing is accepted; the total rise is .50. In 24, 48, 96 steps of 8
// requests sql rose from .01 to .37, .42, .48, and code from .08 to .15, .30, .44 (bench/ablate, Muon, one step per
// request).
constexpr double kFirstSlope = 0.010;
constexpr double kLeastSlopeSpread = 0.0001;  // α per step: a seemingly flat curve may still rise by .005
constexpr double kRequestSpread = 0.1;        // standard deviation of one request's difference in α
constexpr double kExactly = 50;    // weight in requests of an exactly known point: little noise, limited weight
constexpr double kFirstSteps = 8;  // a curve rises with log(1 + steps / 8)

struct Slope {
  double mean = 0, precision = 0;
};

double log_steps(double steps) {
  return std::log1p(std::max(steps, 0.0) / kFirstSteps);
}

// The points that predict the coming rise. The start is left out: with it, .40 after 46 steps of sql predicted .12 for
// the next 40.
std::span<const CurvePoint> telling(const std::vector<CurvePoint>& points) {
  const bool has_start = points.size() > kExportsWithoutStart && points.front().steps == 0;
  return std::span(points).subspan(has_start ? 1 : 0);
}

// Weighted least squares over log_steps(). The precision assumes independent points with the spread above.
Slope fit(std::span<const CurvePoint> points) {
  const double latest = points.empty() ? 0 : points.back().steps;
  double sum_w = 0, sum_x = 0, sum_y = 0;
  const auto weight = [&](const CurvePoint& point) {
    return point.requests / (kRequestSpread * kRequestSpread) * std::exp((point.steps - latest) / kForgettingSteps);
  };
  for (const CurvePoint& point : points) {
    sum_w += weight(point);
    sum_x += weight(point) * log_steps(point.steps);
    sum_y += weight(point) * (point.alpha - point.alpha_base);
  }
  if (sum_w <= 0) return {};
  const double mean_x = sum_x / sum_w, mean_y = sum_y / sum_w;
  double sum_xx = 0, sum_xy = 0;
  for (const CurvePoint& point : points) {
    const double x = log_steps(point.steps) - mean_x, y = point.alpha - point.alpha_base - mean_y;
    sum_xx += weight(point) * x * x;
    sum_xy += weight(point) * x * y;
  }
  return sum_xx > 0 ? Slope{sum_xy / sum_xx, sum_xx} : Slope{};
}

bool is_measured(const CurvePoint& point) {
  return point.requests > 0 && std::isfinite(point.alpha) && std::isfinite(point.alpha_base);
}

void pool(CurvePoint& point, const CurvePoint& more) {
  const double share = more.requests / (point.requests + more.requests);
  point.alpha += share * (more.alpha - point.alpha);
  point.alpha_base += share * (more.alpha_base - point.alpha_base);
  point.requests += more.requests;
}

}  // namespace

LearningCurve::LearningCurve(double alpha_at_start, double share_drafted) {
  const double left = 1 - std::clamp(alpha_at_start, 0.0, 1.0);
  room_ = share_drafted * left * left * left * left * left;
}

void LearningCurve::start_from_base() {
  add({.steps = 0, .alpha = 0, .alpha_base = 0, .requests = kExactly});
}

CurvePoint* LearningCurve::known(double steps) {
  const auto found =
      std::find_if(points_.begin(), points_.end(), [&](const CurvePoint& point) { return point.steps == steps; });
  return found == points_.end() ? nullptr : &*found;
}

void LearningCurve::add_to_known(const CurvePoint& more) {
  CurvePoint* const point = known(more.steps);
  if (point != nullptr && is_measured(more)) pool(*point, more);
}

void LearningCurve::add(const CurvePoint& point) {
  if (!is_measured(point)) return;
  if (CurvePoint* const same = known(point.steps)) return pool(*same, point);
  if (!points_.empty() && point.steps < points_.back().steps) points_.clear();
  points_.push_back(point);
  if (points_.size() > kPoints) points_.erase(points_.begin());
}

LearningCurve::Rise LearningCurve::rise(double steps) const {
  if (steps <= 0) return {};
  const double reach = kDecaySteps * (1 - std::exp(-steps / kDecaySteps));
  const double prior_slope = kFirstSlope * room_ * std::exp(-latest_steps() / kDecaySteps);
  const double prior_mean = prior_slope * reach, prior_spread = (prior_slope + kLeastSlopeSpread) * reach;
  const double prior_precision = 1 / (prior_spread * prior_spread);
  const Slope seen = fit(telling(points_));
  const double log_reach = log_steps(latest_steps() + steps) - log_steps(latest_steps());
  const double seen_precision = seen.precision / (log_reach * log_reach);
  const double precision = prior_precision + seen_precision;
  const double mean = (prior_precision * prior_mean + seen_precision * seen.mean * log_reach) / precision;
  return {mean, 1 / std::sqrt(precision)};
}

double LearningCurve::predicted_gain(double steps) const {
  const Rise expected = rise(steps);
  if (expected.deviation <= 0) return std::max(expected.mean, 0.0);
  const double z = expected.mean / expected.deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  const double mass = std::erfc(-z / std::numbers::sqrt2) / 2;
  return expected.mean * mass + expected.deviation * density;
}

}  // namespace slip
