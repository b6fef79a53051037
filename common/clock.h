// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace slip {

// Use the monotonic clock for durations and the wall clock for timestamps. They are never mixed, so a wall clock that
// steps back causes no negative age.
inline std::int64_t steady_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
// The source of monotonic_us(). A simulation replaces it before it starts threads; nothing else does.
inline std::int64_t (*monotonic_source)() = steady_us;
inline std::int64_t monotonic_us() {
  return monotonic_source();
}

// CPU time of the calling thread.
inline std::int64_t thread_cpu_us() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1'000;
}

// Microseconds since the Unix epoch, UTC.
inline std::int64_t wall_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace slip
