// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace slip {

// The CPUs and the priority of the learner's threads.
struct LearnerPlacement {
  // The CPUs they may run on; empty: any. Without such a list a SCHED_IDLE thread can starve, since Linux does not move
  // it away from a busy core.
  std::vector<int> cpus;
  // True: set_idle_priority(), where the engine leaves a core to each granted unit. False: nice 5, about a quarter of a
  // core beside a busy thread, where a granted unit must compete: on one core, under a CPU quota, or beside an engine
  // whose threads are not pinned.
  bool idle_priority = true;
};

// Applies the placement to the calling thread, the learner's. Threads that it starts later inherit affinity and policy,
// so it must create LibTorch's pool and the scorer's pool after this call. Best effort: a setting that the system
// refuses stays as it was. If it refuses SCHED_IDLE, the thread gets nice 19.
void run_behind_serving(const LearnerPlacement& placement);

}  // namespace slip
