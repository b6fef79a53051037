// SPDX-License-Identifier: Apache-2.0
#include "common/thread_priority.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace slip {
namespace {

// The operand of sched_setattr(2); glibc 2.36 does not declare it.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t slice_ns = 0;  // Linux: sched_runtime; 0: the usual slices
  std::uint64_t deadline_ns = 0, period_ns = 0;
};

constexpr std::uint64_t kShortSliceNs = 100'000;  // the least that Linux allows

// Another policy than the usual one was chosen by the operator, or is idle priority.
void set_slices(std::uint64_t slice_ns) {
  if (::sched_getscheduler(0) != SCHED_OTHER) return;
  const SchedulingAttributes attributes{.nice = ::getpriority(PRIO_PROCESS, 0), .slice_ns = slice_ns};
  ::syscall(SYS_sched_setattr, 0, &attributes, 0U);
}

}  // namespace

void set_nice(int nice) {
  ::setpriority(PRIO_PROCESS, 0, nice);
  set_slices(0);
}

bool set_idle_priority() {
  sched_param none{};
  return ::pthread_setschedparam(::pthread_self(), SCHED_IDLE, &none) == 0;
}

void ask_for_short_slices() {
  set_slices(kShortSliceNs);
}

}  // namespace slip
