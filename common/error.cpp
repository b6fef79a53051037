// SPDX-License-Identifier: Apache-2.0
#include "common/error.h"

#include <unistd.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "common/file.h"

namespace slip {
namespace {

// Bounds the wait for a stalled log reader: a crash must end the process
constexpr std::chrono::milliseconds kPatience{1000};

}  // namespace

void check_failed(const char* condition, const char* file, int line, const char* reason) {
  if (!writable_within(STDERR_FILENO, kPatience)) std::abort();
  std::fprintf(stderr, "slipstream bug: %s at %s:%d\n  possible reason: %s\n", condition, file, line, reason);
  std::fflush(stderr);
  std::abort();
}

}  // namespace slip
