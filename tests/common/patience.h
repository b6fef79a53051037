// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

namespace slip::testing {

// The factor of time limits in tests. The limits detect quadratic cost, and a sanitizer is slow but linear.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kPatience = 20;
#else
inline constexpr int kPatience = 1;
#endif

// Waits until `condition` holds, up to 10 s, under a sanitizer kPatience times as long; false if it never did.
template <class Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 1000 * kPatience; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace slip::testing
