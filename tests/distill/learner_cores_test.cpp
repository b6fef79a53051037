// SPDX-License-Identifier: Apache-2.0
// Who gets which core, with real threads: an engine that never rests and a learner that never has enough. The engine
// pinned to CPU 0 once kept the learner there, at 0.01 s in 7.5 s, while CPU 1 idled: SCHED_IDLE is not balanced away.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "distill/idle_priority.h"
#include "engine/core_sharing.h"
#include "tests/distill/core_time.h"

namespace slip {
namespace {

using kernels::Pinning;
using kernels::ThreadPool;
using testing::affinity;
using testing::clock_us;
using testing::idle_us;
using testing::keep_caller_to;
using testing::thread_time_us;

void spin_us(std::int64_t us) {
  const std::int64_t end_us = clock_us(CLOCK_THREAD_CPUTIME_ID) + us;
  while (clock_us(CLOCK_THREAD_CPUTIME_ID) < end_us) {
  }
}

// Runs `body` over and over in a thread of its own until it goes out of scope.
class Loop {
 public:
  Loop(const std::function<void()>& begin, std::function<void()> body)
      : thread_([this, begin, body = std::move(body)](const std::stop_token& stop) {
          begin();
          started_ = true;
          while (!stop.stop_requested()) body();
        }) {
    while (!started_) std::this_thread::yield();
  }
  std::int64_t time_us() { return thread_time_us(thread_.native_handle()); }

 private:
  std::atomic<bool> started_{false};
  std::jthread thread_;
};

// An engine on a pinned pool, whose steps are loops of 4 ms in 40 parts, on as many threads as the sharing gives it.
class Engine {
 public:
  explicit Engine(int n_threads)
      : pool_(n_threads, Pinning::kOwnCpus),
        plan(plan_cores(kernels::allowed_cpus(), pool_.cpus(), n_threads, 1)),
        cores(pool_, plan.leased_threads) {}
  std::function<void()> begin() {
    return [this] { pool_.pin_caller(); };
  }
  std::function<void()> step() {
    return [this] {
      const std::int64_t start_us = monotonic_us();
      cores.begin_step({.has_prompt = false, .rows = 4});
      pool_.parallel_for(40, [](std::size_t, int) { spin_us(100); });
      cores.end_step(monotonic_us() - start_us, 1);
    };
  }

 private:
  ThreadPool pool_;

 public:
  const CorePlan plan;
  CoreSharing cores;
};

// The learner's share of the time that a CPU had for it or for nobody, over a second: what other programs take of the
// CPU counts for neither. Empty when they left less than 50 ms of it in five seconds.
std::optional<double> share_of_what_was_left(int cpu, Loop& learner) {
  const std::int64_t time_before = learner.time_us(), idle_before = idle_us(cpu);
  for (int second = 0; second < 5; ++second) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const std::int64_t got = learner.time_us() - time_before, idle = idle_us(cpu) - idle_before;
    if (got + idle >= 50'000) return static_cast<double>(got) / static_cast<double>(got + idle);
  }
  return std::nullopt;
}

class LearnerCores : public ::testing::Test {
 protected:
  void SetUp() override {
    if (affinity().size() < 2) GTEST_SKIP() << "needs two CPUs";
    if (idle_us(affinity().front()) < 0) GTEST_SKIP() << "needs /proc/stat";
  }
};

TEST_F(LearnerCores, AnIdleCoreBesideABusyEngineIsTheLearners) {
  Engine engine(1);
  ASSERT_EQ(engine.plan.learner_cpus.size(), 1U);
  const Loop busy(engine.begin(), engine.step());
  Loop learner([&] { run_behind_serving({engine.plan.learner_cpus, true}); }, [] { spin_us(1'000); });
  const auto share = share_of_what_was_left(engine.plan.learner_cpus.front(), learner);
  if (!share) GTEST_SKIP() << "other programs leave the CPU no time";
  EXPECT_GE(*share, 0.8);
}

TEST_F(LearnerCores, NegativeOnTheEnginesCoreItWouldGetNothingOfTheIdleOne) {
  Engine engine(1);
  const Loop busy(engine.begin(), engine.step());
  Loop learner([&] { run_behind_serving({{affinity().front()}, true}); }, [] { spin_us(1'000); });
  const auto share = share_of_what_was_left(engine.plan.learner_cpus.front(), learner);
  if (!share) GTEST_SKIP() << "other programs leave the CPU no time";
  EXPECT_LT(*share, 0.5);
}

// Time of the learner and of the engine's threads over 600 ms of the learner's or the engine's, whichever is first.
double share_beside(Loop& learner, Loop& engine) {
  const std::int64_t learner_before = learner.time_us(), engine_before = engine.time_us();
  std::int64_t got = 0, taken = 0;
  while (got + taken < 600'000) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    got = learner.time_us() - learner_before;
    taken = engine.time_us() - engine_before;
  }
  return static_cast<double>(got) / static_cast<double>(got + taken);
}

TEST_F(LearnerCores, ALeaseGivesItACoreOfABusyPool) {
  const auto n = static_cast<int>(affinity().size());
  Engine engine(n);
  ASSERT_EQ(engine.plan.leased_threads, n - 1);
  const Loop busy(engine.begin(), engine.step());
  Loop learner([&] { run_behind_serving({engine.plan.learner_cpus, true}); }, [] { spin_us(1'000); });
  engine.cores.begin_unit(/*with_lease=*/true);
  const auto share = share_of_what_was_left(engine.plan.learner_cpus.front(), learner);
  engine.cores.end_unit();
  if (!share) GTEST_SKIP() << "other programs leave the CPU no time";
  EXPECT_GE(*share, 0.8);
}

TEST_F(LearnerCores, NegativeWithoutALeaseABusyPoolLeavesItLittle) {
  Engine engine(static_cast<int>(affinity().size()));
  Loop busy(engine.begin(), engine.step());
  Loop learner([&] { run_behind_serving({engine.plan.learner_cpus, true}); }, [] { spin_us(1'000); });
  // The engine's own thread stands for its last worker, which has as much to do.
  EXPECT_LT(share_beside(learner, busy), 0.3);
}

// With one core there is nothing to leave alone: the learner competes, at a quarter of it.
TEST_F(LearnerCores, OnOneCoreAUnitGetsARealShare) {
  double share = 0, of_idle_priority = 1;
  std::thread([&] {
    keep_caller_to(affinity().back());
    Engine engine(1);
    EXPECT_TRUE(engine.plan.learner_cpus.empty());
    Loop busy(engine.begin(), engine.step());
    {
      Loop learner([] { run_behind_serving({{}, /*idle_priority=*/false}); }, [] { spin_us(1'000); });
      share = share_beside(learner, busy);
    }
    Loop learner([] { run_behind_serving({{}, /*idle_priority=*/true}); }, [] { spin_us(1'000); });
    of_idle_priority = share_beside(learner, busy);
  }).join();
  EXPECT_GE(share, 0.1);
  EXPECT_LE(share, 0.5);
  EXPECT_LT(of_idle_priority, 0.05) << "negative control: SCHED_IDLE gets next to nothing beside a busy thread";
}

}  // namespace
}  // namespace slip
