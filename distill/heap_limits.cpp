// SPDX-License-Identifier: Apache-2.0
#include "distill/heap_limits.h"

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace slip {
namespace {

// A step's temporaries (rows · width floats) are mostly smaller: they stay in an arena. Matrices of a vocabulary and
// files are larger.
[[maybe_unused]] constexpr int kMappedBytes = 3 << 20;
// What may stay free at an arena's end, so that the next step finds its temporaries there without page faults, which
// took a tenth of its time.
[[maybe_unused]] constexpr int kTopBytes = 32 << 20;

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
