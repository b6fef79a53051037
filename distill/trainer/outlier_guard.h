// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <deque>

namespace slip {

// Tells a value far outside the recent ones: z-score over a sliding window. Sums are double and taken afresh each time
// (the window is short), so no rounding builds up over a process's life. A value that is tested enters the window
// whatever the result, so that a lasting shift stops being an outlier.
class OutlierGuard {
 public:
  static constexpr std::size_t kWindow = 64;
  static constexpr std::size_t kEnough = 16;  // with fewer values nothing is an outlier
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
  // At least 1 % of the mean, so that a window of equal values does not make everything an outlier.
  double deviation() const {
    const double middle = mean();
    double squares = 0;
    for (double value : values_) squares += (value - middle) * (value - middle);
    return std::max(std::sqrt(squares / static_cast<double>(values_.size())), 0.01 * std::abs(middle));
  }

  std::deque<double> values_;
};

}  // namespace slip
