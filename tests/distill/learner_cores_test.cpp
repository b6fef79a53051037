// SPDX-License-Identifier: Apache-2.0
// Core sharing with real threads: an engine that is always busy and a learner that always has work. Regression: an
// engine pinned to CPU 0 kept the learner there, at 0.01 s in 7.5 s, while CPU 1 was idle: Linux does not move
// SCHED_IDLE threads.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "distill/idle_priority.h"
#include "engine/core_sharing.h"
#include "tests/common/core_time.h"

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

// Runs `body` repeatedly in its own thread until the object is destroyed.
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
        cores(pool_, plan.leased_threads) {
    std::atomic<int> arrived{0};
    pool_.parallel_for(static_cast<std::size_t>(n_threads), [&](std::size_t, int worker) {
      if (worker == n_threads - 1) last_worker_ = ::pthread_self();
      ++arrived;
      while (arrived < n_threads) std::this_thread::yield();
    });
  }
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
  std::int64_t last_worker_time_us() const { return thread_time_us(last_worker_); }

 private:
  ThreadPool pool_;
  pthread_t last_worker_{};

 public:
  const CorePlan plan;
  CoreSharing cores;
};

// The learner's share of a CPU's time that the learner used or that was idle, over one second; time of other programs
// is excluded. Empty when they left less than 50 ms in five seconds.
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

// The learner's share of the CPU time of itself and another thread, from 600 ms of both together. Empty when five
// seconds give less than 20 ms.
std::optional<double> share_beside(Loop& learner, const std::function<std::int64_t()>& other_time_us) {
  const std::int64_t learner_before = learner.time_us(), other_before = other_time_us();
  std::int64_t got = 0, both = 0;
  for (int i = 0; i < 250 && both < 600'000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    got = learner.time_us() - learner_before;
    both = got + other_time_us() - other_before;
  }
  if (both < 20'000) return std::nullopt;
  return static_cast<double>(got) / static_cast<double>(both);
}

// A busy pool on all CPUs and a learner on its last worker's: how the two share it.
std::optional<double> share_of_the_last_workers_core(bool with_lease) {
  Engine engine(static_cast<int>(affinity().size()));
  const Loop busy(engine.begin(), engine.step());
  Loop learner([&] { run_behind_serving({engine.plan.learner_cpus, true}); }, [] { spin_us(1'000); });
  if (with_lease) engine.cores.begin_unit(true);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the step at hand still has all threads
  const auto share = share_beside(learner, [&] { return engine.last_worker_time_us(); });
  engine.cores.end_unit();
  return share;
}

TEST_F(LearnerCores, ALeaseGivesItACoreOfABusyPool) {
  const auto share = share_of_the_last_workers_core(/*with_lease=*/true);
  if (!share) GTEST_SKIP() << "other programs leave the CPU no time";
  EXPECT_GE(*share, 0.8);
}

TEST_F(LearnerCores, NegativeWithoutALeaseABusyPoolLeavesItLittle) {
  const auto share = share_of_the_last_workers_core(/*with_lease=*/false);
  if (!share) GTEST_SKIP() << "other programs leave the CPU no time";
  EXPECT_LT(*share, 0.4);
}

// With one core none can be left to the learner, so it competes and gets a quarter.
TEST_F(LearnerCores, OnOneCoreAUnitGetsARealShare) {
  std::optional<double> competing, idle;
  std::thread([&] {
    keep_caller_to(affinity().back());
    Engine engine(1);
    EXPECT_TRUE(engine.plan.learner_cpus.empty());
    Loop busy(engine.begin(), engine.step());
    const auto share_of = [&](bool idle_priority) {
      Loop learner([&] { run_behind_serving({{}, idle_priority}); }, [] { spin_us(1'000); });
      return share_beside(learner, [&] { return busy.time_us(); });
    };
    competing = share_of(/*idle_priority=*/false);
    idle = share_of(/*idle_priority=*/true);
  }).join();
  if (!competing || !idle) GTEST_SKIP() << "other programs leave the CPU no time";
  EXPECT_GE(*competing, 0.1);
  EXPECT_LE(*competing, 0.5);
  EXPECT_LT(*idle, 0.05) << "negative control: SCHED_IDLE gets next to nothing beside a busy thread";
}

}  // namespace
}  // namespace slip
