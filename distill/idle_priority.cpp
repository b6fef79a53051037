// SPDX-License-Identifier: Apache-2.0
#include "distill/idle_priority.h"

#include <pthread.h>
#include <sched.h>

#include "common/thread_priority.h"

namespace slip {
namespace {

// Weight 335 of 1024 beside a thread at nice 0 (sched(7)): a quarter of the core.
constexpr int kCompetingNice = 5;

void keep_to(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

}  // namespace

void run_behind_serving(const LearnerPlacement& placement) {
  keep_to(placement.cpus);
  if (!placement.idle_priority) return set_nice(kCompetingNice);
  if (!set_idle_priority()) set_nice(kLowestNice);
}

}  // namespace slip
