// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace slip {

// Where the learner's threads run and at what priority.
struct LearnerPlacement {
  // The only CPUs they run on; empty: any. Linux does not move a SCHED_IDLE thread off a busy core by itself.
  std::vector<int> cpus;
  // True: SCHED_IDLE, whose threads give way to any other within a millisecond, and get nothing beside a busy one.
  // Right where the engine leaves a core to a granted unit. False: SCHED_OTHER at nice 5, about a quarter of a core
  // beside a busy thread. Right where a granted unit has to compete: one core, a quota of time, threads that are not
  // pinned.
  bool idle_priority = true;
};

// Applies the placement to the calling thread. Threads that it starts later inherit it: Linux copies affinity and
// policy to a new thread. So LibTorch's pool and the scorer's pool have to be made on this thread, afterwards. Best
// effort: what the system refuses is left as it is, and an idle priority refused becomes the lowest nice level.
void run_behind_serving(const LearnerPlacement& placement);

// The calling thread's nice level, 0 to 19; best effort.
void set_nice(int nice);

}  // namespace slip
