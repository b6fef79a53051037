// SPDX-License-Identifier: Apache-2.0
// Training has threads of its own: the engine's pool does none of its work.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "kernels/thread_pool.h"
#include "tests/distill/learner_fixture.h"

namespace slip {
namespace {

using testing::LearnerSetup;
using testing::stream;

// A pool like the engine's that measures the CPU time of its second worker.
class EnginesPool {
 public:
  EnginesPool() {
    std::atomic<int> arrived{0};
    pool_.parallel_for(2, [&](std::size_t, int worker) {
      if (worker == 1) clock_known_ = ::pthread_getcpuclockid(::pthread_self(), &clock_) == 0;
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
  }
  bool clock_known() const { return clock_known_; }
  std::int64_t worker_us() const {
    timespec used{};
    ::clock_gettime(clock_, &used);
    return used.tv_sec * 1'000'000 + used.tv_nsec / 1000;
  }
  void work() {
    std::atomic<int> arrived{0};
    const std::int64_t end_us =
        worker_us() + 20'000;  // one for both: the worker's clock stands when it has done its part
    pool_.parallel_for(2, [&](std::size_t, int) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
      while (worker_us() < end_us) {
      }
    });
  }

 private:
  kernels::ThreadPool pool_{2};
  clockid_t clock_{};
  bool clock_known_ = false;
};

constexpr std::int64_t kResting = 5'000;  // µs: what going to sleep takes, many times over

TEST(LearnerThreads, TrainingLeavesTheEnginesPoolAlone) {
  LearnerSetup setup;
  setup.options.cores = 2;
  setup.options.trainer.threads = 2;
  const EnginesPool engine;
  ASSERT_TRUE(engine.clock_known());
  const std::int64_t before_us = engine.worker_us();
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  stream(*learner, 1, 32);
  learner->stop();
  EXPECT_GT(setup.recorded.scores().size(), 0U);
  EXPECT_LT(engine.worker_us() - before_us, kResting);
}

TEST(LearnerThreads, NegativeWorkGivenToThePoolShows) {
  EnginesPool engine;
  const std::int64_t before_us = engine.worker_us();
  engine.work();
  EXPECT_GT(engine.worker_us() - before_us, kResting);
}

}  // namespace
}  // namespace slip
