// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <deque>

namespace slip {

// Detects values far above the recent ones by their z-score over a sliding window. Sums are double and computed anew
// each time (the window is short), so rounding does not accumulate. Every tested value enters the window, so that a
// lasting shift stops being an outlier.
class OutlierGuard {
 public:
  static constexpr std::size_t kWindow = 64;
  static constexpr std::size_t kEnough = 16;  // with fewer values, no value is an outlier
  static constexpr double kLimit = 6.0;

  bool is_outlier(double value) {
    const bool outlier = values_.size() >= kEnough && value - mean() > kLimit * deviation();
    values_.push_back(value);
    if (values_.size() > kWindow) values_.pop_front();
    return outlier;
  }
  const std::deque<double>& values() const { return values_; }
  void restore(std::deque<double> values) { values_ = std::move(values); }

 private:
  double mean() const {
    double sum = 0;
    for (double value : values_) sum += value;
    return sum / static_cast<double>(values_.size());
  }
  // The standard deviation, at least 1 % of the mean, so that after equal values not every change is an outlier.
  double deviation() const {
    const double middle = mean();
    double squares = 0;
    for (double value : values_) squares += (value - middle) * (value - middle);
    return std::max(std::sqrt(squares / static_cast<double>(values_.size())), 0.01 * std::abs(middle));
  }

  std::deque<double> values_;
};

}  // namespace slip
