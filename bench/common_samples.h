// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <vector>

namespace slip::bench {

// Seconds that `work` takes.
template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::max(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 1e-9);
}

// Measurements of one thing, in seconds. The best is what the machine can do, the median what it mostly did; the mean
// is what sums over many steps are compared with.
class Samples {
 public:
  void add(double seconds) { seconds_.push_back(seconds); }
  bool empty() const { return seconds_.empty(); }
  // REQUIRES of all three: !empty().
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

  // Runs `work` once unmeasured, because what was measured before it has emptied the caches, then as often as fits
  // `budget_seconds`: once at least, `kMostRepeats` times at most.
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

}  // namespace slip::bench
