// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace slip {

// The last kMost samples of figures that grow with time, each at least `every_us` after the one before. `Sample` has
// its time as at_us. Threads: one at a time.
template <class Sample, std::size_t kMost>
class SampleRing {
 public:
  explicit SampleRing(std::int64_t every_us) : every_us_(every_us) {}

  // Leaves out a sample that comes too early.
  void add(const Sample& sample) noexcept {
    if (n_ > 0 && sample.at_us - newest().at_us < every_us_) return;
    samples_[n_++ % kMost] = sample;
  }
  bool full() const noexcept { return n_ >= kMost; }
  // REQUIRES: add() was called.
  const Sample& oldest() const noexcept { return samples_[full() ? n_ % kMost : 0]; }
  const Sample& newest() const noexcept { return samples_[(n_ - 1) % kMost]; }

 private:
  std::int64_t every_us_;
  std::array<Sample, kMost> samples_{};
  std::size_t n_ = 0;
};

}  // namespace slip
