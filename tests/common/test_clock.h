// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "common/clock.h"

namespace slip::testing {

// Is the process's monotonic clock while it exists, and stands still unless told. One at a time. Threads: any.
class TestClock {
 public:
  explicit TestClock(std::int64_t now_us = 0) : before_(std::exchange(monotonic_source, &read)) { time_us = now_us; }
  ~TestClock() { monotonic_source = before_; }
  TestClock(const TestClock&) = delete;
  TestClock& operator=(const TestClock&) = delete;

  void advance(std::int64_t us) { time_us += us; }

 private:
  static std::int64_t read() { return time_us.load(); }
  static inline std::atomic<std::int64_t> time_us{0};
  std::int64_t (*before_)();
};

}  // namespace slip::testing
