// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <vector>

namespace slip {

// Runs `work` and returns its duration in seconds, at least 1e-9.
template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::max(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 1e-9);
}

// Measured durations of one operation, in seconds. The best shows what the machine can do, the median its typical
// speed. For a comparison with a total over many operations, use the mean.
class Samples {
 public:
  void add(double seconds) { seconds_.push_back(seconds); }
  bool empty() const { return seconds_.empty(); }
  // REQUIRES for all three: !empty().
  double best() const { return *std::min_element(seconds_.begin(), seconds_.end()); }
  double mean() const {
    return std::accumulate(seconds_.begin(), seconds_.end(), 0.0) / static_cast<double>(seconds_.size());
  }
  double median() const {
    std::vector<double> sorted = seconds_;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

  // Runs `work` once without measuring it, to warm the caches. Then measures it again and again until `budget_seconds`
  // are spent: at least once, at most kMostRepeats times.
  template <class Work>
  void measure(const Work& work, double budget_seconds) {
    constexpr int kMostRepeats = 50;
    double spent = seconds_of(work);
    for (int i = 0; i < kMostRepeats; ++i) {
      add(seconds_of(work));
      spent += seconds_.back();
      if (spent >= budget_seconds) return;
    }
  }

 private:
  std::vector<double> seconds_;
};

}  // namespace slip
