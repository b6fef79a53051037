// SPDX-License-Identifier: Apache-2.0
#include "distill/idle_priority.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "kernels/thread_pool.h"
#include "tests/distill/core_time.h"

namespace slip {
namespace {

using testing::affinity;

// What one thread runs on and how.
struct Seen {
  std::vector<int> cpus;
  int policy = 0;
  bool operator==(const Seen&) const = default;
};

Seen look() {
  return {affinity(), ::sched_getscheduler(0)};
}

TEST(LearnerPlacement, KeepsTheThreadToItsCpusAtIdlePriority) {
  const int cpu = affinity().back();
  Seen seen;
  std::thread([&] {
    run_behind_serving({.cpus = {cpu}});
    seen = look();
  }).join();
  EXPECT_EQ(seen, (Seen{{cpu}, SCHED_IDLE}));
  EXPECT_NE(look().policy, SCHED_IDLE) << "only the calling thread";
}

TEST(LearnerPlacement, WithoutIdlePriorityItCompetesAtALowerOne) {
  std::vector<int> cpus;
  int policy = -1, nice = 0;
  std::thread([&] {
    run_behind_serving({.cpus = {}, .idle_priority = false});
    cpus = affinity();
    policy = ::sched_getscheduler(0);
    nice = ::getpriority(PRIO_PROCESS, 0);
  }).join();
  EXPECT_EQ(cpus, affinity());
  EXPECT_EQ(policy, SCHED_OTHER);
  EXPECT_GE(nice, 5);
}

// The scorer's pool and LibTorch's are made on the learner's thread: Linux copies policy and affinity to new threads.
TEST(LearnerPlacement, ThreadsThatTheLearnerStartsInheritIt) {
  const int cpu = affinity().back();
  std::vector<Seen> of_pool(2), of_torch;
  std::set<std::thread::id> torch_threads;
  std::thread([&] {
    run_behind_serving({.cpus = {cpu}});
    kernels::ThreadPool pool(2);
    std::atomic<int> arrived{0};
    pool.parallel_for(2, [&](std::size_t, int worker) {
      of_pool[static_cast<std::size_t>(worker)] = look();
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    at::set_num_threads(2);
    std::mutex mutex;
    at::parallel_for(0, 2, 1, [&](std::int64_t, std::int64_t) {
      const std::lock_guard lock(mutex);
      of_torch.push_back(look());
      torch_threads.insert(std::this_thread::get_id());
    });
  }).join();
  const Seen placed{{cpu}, SCHED_IDLE};
  for (const Seen& seen : of_pool) EXPECT_EQ(seen, placed);
  EXPECT_EQ(torch_threads.size(), 2U) << "LibTorch has a thread of its own here";
  for (const Seen& seen : of_torch) EXPECT_EQ(seen, placed);
}

}  // namespace
}  // namespace slip
