// SPDX-License-Identifier: Apache-2.0
#include "cli/process/stack_limit.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "common/error.h"

namespace slip::cli {
namespace {

constexpr rlim_t kUsualBytes = rlim_t{8} << 20, kLeastBytes = rlim_t{2} << 20;

// glibc took the default for new threads from the limit at the program's start.
void enlarge_threads_stacks() {
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) != 0) return;
  std::size_t bytes = 0;
  if (::pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < kUsualBytes) {
    ::pthread_attr_setstacksize(&attributes, kUsualBytes);
    ::pthread_setattr_default_np(&attributes);
  }
  ::pthread_attr_destroy(&attributes);
}

}  // namespace

void allow_large_stacks() {
  enlarge_threads_stacks();
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kUsualBytes) return;
  limit.rlim_cur = std::min(kUsualBytes, limit.rlim_max);
  ::setrlimit(RLIMIT_STACK, &limit);
  if (limit.rlim_cur >= kLeastBytes) return;
  throw Error(ErrorCode::kUnavailable,
              "a stack of " + std::to_string(limit.rlim_cur >> 10) + " KiB, which is the limit here, is too small",
              "raise the hard limit of the stack to 8 MiB: ulimit -s 8192");
}

}  // namespace slip::cli
