// SPDX-License-Identifier: Apache-2.0
#include "common/error.h"

#include <cstdio>
#include <cstdlib>

namespace slip {

void check_failed(const char* condition, const char* file, int line, const char* reason) {
  std::fprintf(stderr, "slipstream bug: %s at %s:%d\n  possible reason: %s\n", condition, file, line, reason);
  std::fflush(stderr);
  std::abort();
}

}  // namespace slip
