// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace slip {

// The CPUs and the priority of the learner's threads.
struct LearnerPlacement {
  // The only CPUs they may run on; empty: any. Needed since Linux does not move a SCHED_IDLE thread off a busy core.
  std::vector<int> cpus;
  // True: SCHED_IDLE. Its threads give way to any other thread within a millisecond, and get no time beside a busy one.
  // Use it where the engine leaves a core to a granted unit. False: SCHED_OTHER at nice 5, about a quarter of a core
  // beside a busy thread. Use it where a granted unit must compete: on one core, under a CPU quota, or beside threads
  // that are not pinned.
  bool idle_priority = true;
};

// Applies the placement to the calling thread. Threads that it starts later inherit it, since Linux copies affinity and
// policy to a new thread. So create LibTorch's pool and the scorer's pool on this thread, afterwards. Best effort: a
// setting that the system refuses stays unchanged, and a refused idle priority becomes the lowest nice level.
void run_behind_serving(const LearnerPlacement& placement);

// Sets the calling thread's nice level, 0 to 19; best effort.
void set_nice(int nice);

}  // namespace slip
