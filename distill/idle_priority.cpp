// SPDX-License-Identifier: Apache-2.0
#include "distill/idle_priority.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace slip {
namespace {

constexpr int kLowestNice = 19;

}  // namespace

void sink_to_idle_priority() {
  sched_param none{};
  if (::pthread_setschedparam(::pthread_self(), SCHED_IDLE, &none) == 0) return;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kLowestNice);
}

}  // namespace slip
