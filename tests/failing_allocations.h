// SPDX-License-Identifier: Apache-2.0
// Allocations that fail when a test says so: tests/failing_allocations.cpp replaces operator new of the test programs
// that it is linked into (tests/CMakeLists.txt).
#pragma once

#include <atomic>
#include <functional>
#include <new>
#include <utility>

namespace slip::testing {

extern std::atomic<int> until_failure;  // allocations; 0 or less: none fails any more
extern thread_local bool may_fail;      // true until the test's own thread says otherwise

// While one lives, no allocation of its thread fails.
class Spared {
 public:
  Spared() : before_(std::exchange(may_fail, false)) {}
  ~Spared() { may_fail = before_; }
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;

 private:
  const bool before_;
};

// Calls `work` with its first allocation failing, then its second, until there are no more. Returns how many failed.
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
