// SPDX-License-Identifier: Apache-2.0
#include "distill/heap_limits.h"

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace slip {
namespace {

// A step's temporaries (rows · width floats) are mostly smaller: they stay in an arena, where the next step reuses them
// without page faults. Matrices of a vocabulary and files are larger.
[[maybe_unused]] constexpr int kMappedBytes = 2 << 20;
// What may stay free at an arena's end: twice as much, as glibc chooses when it moves the threshold itself.
[[maybe_unused]] constexpr int kTopBytes = 2 * kMappedBytes;

bool set_limits() {
#if defined(__GLIBC__)
  return ::mallopt(M_MMAP_THRESHOLD, kMappedBytes) == 1 && ::mallopt(M_TRIM_THRESHOLD, kTopBytes) == 1;
#else
  return false;
#endif
}

}  // namespace

void limit_heap() {
  static const bool done = set_limits();
  static_cast<void>(done);
}

}  // namespace slip
