// SPDX-License-Identifier: Apache-2.0
// Lets tests make allocations fail: tests/failing_allocations.cpp replaces operator new of the test programs into which
// it is linked (tests/CMakeLists.txt).
#pragma once

#include <atomic>
#include <functional>
#include <new>
#include <utility>

namespace slip::testing {

extern std::atomic<int> until_failure;  // number of allocations until one fails; 0 or less: none fails
extern std::atomic<bool> all_fail;      // true: every one fails
extern std::atomic<int> n_failed;
extern thread_local bool may_fail;  // initially true; the test's own thread may clear it

// While an object lives, no allocation of its thread fails.
class Spared {
 public:
  Spared() : before_(std::exchange(may_fail, false)) {}
  ~Spared() { may_fail = before_; }
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;

 private:
  const bool before_;
};

// Calls `work` with its first allocation failing, then its second, and so on until none fails. Returns the number of
// failed ones.
inline int fail_each(const std::function<void()>& work) {
  for (int n = 1;; ++n) {
    until_failure = n;
    try {
      work();
    } catch (const std::bad_alloc&) {
    }
    if (until_failure.exchange(0) > 0) return n - 1;
  }
}

}  // namespace slip::testing
