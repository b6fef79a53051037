// SPDX-License-Identifier: Apache-2.0
#include "distill/idle_priority.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "kernels/thread_pool.h"
#include "tests/common/core_time.h"

namespace slip {
namespace {

using testing::affinity;

// The CPUs and the scheduling of one thread.
struct Seen {
  std::vector<int> cpus;
  int policy = 0;
  bool operator==(const Seen&) const = default;
};

// `thread` 0: the calling one.
Seen look(pid_t thread = 0) {
  return {affinity(thread), ::sched_getscheduler(thread)};
}

std::set<pid_t> threads() {
  std::set<pid_t> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    all.insert(std::stoi(entry.path().filename()));
  }
  return all;
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
  std::thread([&] {
    run_behind_serving({.cpus = {cpu}});
    kernels::ThreadPool pool(2);
    std::atomic<int> arrived{0};
    pool.parallel_for(2, [&](std::size_t, int worker) {
      of_pool[static_cast<std::size_t>(worker)] = look();
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    // No code of ours runs on LibTorch's threads: they are the ones that an operation adds to this process.
    const std::set<pid_t> before = threads();
    at::set_num_threads(2);
    at::ones({1 << 22}).add_(1);
    for (const pid_t thread : threads()) {
      if (!before.contains(thread)) of_torch.push_back(look(thread));
    }
    at::set_num_threads(1);
  }).join();
  const Seen placed{{cpu}, SCHED_IDLE};
  for (const Seen& seen : of_pool) EXPECT_EQ(seen, placed);
  EXPECT_GE(of_torch.size(), 1U) << "LibTorch has started a thread";
  for (const Seen& seen : of_torch) EXPECT_EQ(seen, placed);
}

}  // namespace
}  // namespace slip
