// SPDX-License-Identifier: Apache-2.0
#include "engine/core_sharing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <vector>

#include "tests/engine/engine_bench.h"

namespace slip {
namespace {

using kernels::AllowedCpu;
using kernels::ThreadPool;

std::int64_t now_us = 0;
std::int64_t test_clock() {
  return now_us;
}

// An engine with given step times, on a clock that the test sets.
struct Scene {
  explicit Scene(int n_threads, int leased_threads) : pool(n_threads) {
    now_us = 1'000'000;
    cores.emplace(pool, leased_threads, test_clock);
  }
  // Runs one step; returns its number of threads.
  int step(std::int64_t us, StepKind kind = {false, 4}) {
    cores->begin_step(kind);
    const int n_threads = pool.n_used();
    now_us += us;
    cores->end_step(us, 1);
    return n_threads;
  }
  // Runs steps whose time follows from `us` and their threads, until the choice of threads is settled.
  void settle(std::int64_t us, double slower, StepKind kind = {false, 4}) {
    for (int i = 0; i < 200; ++i) {
      cores->begin_step(kind);
      const bool fewer = pool.n_used() < pool.n_threads();
      const auto took = static_cast<std::int64_t>(static_cast<double>(us) * (fewer ? slower : 1));
      now_us += took;
      cores->end_step(took, 1);
    }
  }

  ThreadPool pool;
  std::optional<CoreSharing> cores;
};

TEST(PlanCores, SpareCpusFirstThenTheLastWorkersNeverTheFirst) {
  const std::vector<AllowedCpu> four{{0, 0}, {1, 0}, {2, 0}, {3, 0}};
  const std::vector<int> all{0, 1, 2, 3}, two{0, 1};
  const CorePlan one = plan_cores(four, all, 4, 1);
  EXPECT_EQ(one.learner_cpus, std::vector<int>{3});
  EXPECT_EQ(one.leased_threads, 3);
  const CorePlan spare = plan_cores(four, two, 2, 1);
  EXPECT_EQ(spare.learner_cpus, std::vector<int>{2});
  EXPECT_EQ(spare.leased_threads, 2);
  const CorePlan mixed = plan_cores(four, two, 2, 3);
  EXPECT_EQ(mixed.learner_cpus, (std::vector<int>{2, 3, 1}));
  EXPECT_EQ(mixed.leased_threads, 1);
  const CorePlan greedy = plan_cores(four, all, 4, 9);
  EXPECT_EQ(greedy.learner_cpus, (std::vector<int>{3, 2, 1}));
  EXPECT_EQ(greedy.leased_threads, 1);
}

TEST(PlanCores, NoAffinityOnOneCoreOrWithoutPins) {
  const std::vector<AllowedCpu> one{{5, 0}}, two{{0, 0}, {1, 0}};
  const CorePlan alone = plan_cores(one, std::vector<int>{5}, 1, 1);
  EXPECT_TRUE(alone.learner_cpus.empty());
  EXPECT_EQ(alone.leased_threads, 1);
  const CorePlan unpinned = plan_cores(two, {}, 2, 1);
  EXPECT_TRUE(unpinned.learner_cpus.empty());
  EXPECT_EQ(unpinned.leased_threads, 1);
}

TEST(CoreSharing, ALeaseTakesItsCoresAtTheNextStepAndGivesThemBackAtTheOneAfter) {
  Scene scene(4, 3);
  EXPECT_EQ(scene.step(10'000), 4);
  scene.cores->begin_unit(/*with_lease=*/true);
  EXPECT_EQ(scene.step(10'000), 3);
  EXPECT_EQ(scene.step(10'000), 3);
  scene.cores->end_unit();
  EXPECT_EQ(scene.step(10'000), 4);
}

// A step under a lease took 27 ms where others take 14; a unit that ended after 5 ms left its core idle for 22 ms.
TEST(CoreSharing, AUnitThatEndsWithinAStepGivesItsCoresBackToThatStep) {
  Scene scene(4, 2);
  scene.cores->begin_unit(/*with_lease=*/true);
  scene.cores->begin_step({false, 4});
  EXPECT_EQ(scene.pool.n_used(), 2);
  scene.cores->end_unit();
  EXPECT_EQ(scene.pool.n_used(), 4);
  std::atomic<int> n{0};
  scene.pool.parallel_for(100, [&](std::size_t, int) { ++n; });
  EXPECT_EQ(n, 100);
  scene.cores->end_step(1'000, 1);
  EXPECT_EQ(scene.cores->totals().leased_us, 1'000) << "it began under a lease";
  scene.cores->begin_unit(true);
  scene.cores->end_unit();  // between two steps
  EXPECT_EQ(scene.step(1'000), 4);
}

TEST(CoreSharing, AUnitWithoutALeaseLeavesTheEngineAllThreadsUntilItIsOverdue) {
  Scene scene(2, 1);
  scene.cores->begin_unit(/*with_lease=*/false);
  EXPECT_EQ(scene.step(800'000), 2);
  EXPECT_EQ(scene.step(300'000), 2);
  EXPECT_EQ(scene.step(10'000), 1) << "or it would stand still for as long as the engine is busy";
  scene.cores->end_unit();
  EXPECT_EQ(scene.step(10'000), 2);
}

// A trial's time, or a leased step's, does not predict later steps.
TEST(CoreSharing, KnowsWhichStepsAreTrials) {
  Scene scene(2, 1);
  int n_trials = 0;
  for (int i = 0; i < 40; ++i) {
    scene.cores->begin_step({false, 4});
    const bool fewer = scene.pool.n_used() == 1;
    EXPECT_EQ(scene.cores->ran_trial(), fewer) << i;
    n_trials += fewer ? 1 : 0;
    scene.cores->end_step(fewer ? 13'000 : 10'000, 1);
  }
  EXPECT_GE(n_trials, 6);
  scene.cores->begin_unit(/*with_lease=*/true);
  EXPECT_EQ(scene.step(10'000), 1);
  EXPECT_TRUE(scene.cores->ran_leased());
  EXPECT_FALSE(scene.cores->ran_trial());
}

// Prompts scale with the cores: a lease there would cost twice as much, and lengthen the longest gaps.
TEST(CoreSharing, AStepThatReadsAPromptHonoursALeaseOnlyWhenItIsOverdue) {
  Scene scene(2, 1);
  scene.cores->begin_unit(/*with_lease=*/true);
  EXPECT_EQ(scene.step(500'000, {true, 256}), 2);
  EXPECT_EQ(scene.step(8'000, {false, 4}), 1);
  EXPECT_EQ(scene.step(500'000, {true, 256}), 2);
  EXPECT_EQ(scene.step(100'000, {true, 256}), 1) << "the unit is a second old";
  scene.cores->end_unit();
  EXPECT_EQ(scene.step(100'000, {true, 256}), 2);
}

// A trial with fewer threads would cost a prompt twice its time, for the first six of each length.
TEST(CoreSharing, PromptsTryNoFewerThreads) {
  Scene scene(2, 1);
  for (int i = 0; i < 400; ++i) {
    ASSERT_EQ(scene.step(100'000, {true, i % 2 == 0 ? 256 : 100}), 2) << i;
    EXPECT_FALSE(scene.cores->reads_prompt()) << "the step is over";
  }
  scene.cores->begin_step({true, 256});
  EXPECT_TRUE(scene.cores->reads_prompt());
}

// Half of the time goes into prompts: a better draft can save no more than the other half.
TEST(CoreSharing, DecodeTimeKnowsTheShareOfPrompts) {
  Scene scene(2, 1);
  for (int i = 0; i < 20'000; ++i) scene.step(10'000, {i % 2 == 0, 4});
  scene.cores->set_decode_time(DecodeTime::of_chain(3));
  EXPECT_NEAR(scene.cores->decode_time().share, 0.5, 0.02);
}

TEST(CoreSharing, CountsWhatLeasesCostAndNothingElse) {
  Scene scene(2, 1);
  scene.settle(8'700, 11.5 / 8.7);
  EXPECT_EQ(scene.cores->totals().cost_us, 0);
  EXPECT_EQ(scene.cores->totals().leased_us, 0);
  for (int i = 0; i < 400; ++i) {
    scene.cores->begin_unit(true);
    scene.step(11'500);
    scene.cores->end_unit();
    scene.settle(8'700, 11.5 / 8.7);
  }
  const CoreSharing::Totals totals = scene.cores->totals();
  EXPECT_EQ(totals.leased_us, 400 * 11'500);
  EXPECT_NEAR(static_cast<double>(totals.cost_us), 400.0 * (11'500 - 8'700), 0.05 * 400 * 2'800);
  EXPECT_NEAR(scene.cores->lease_cost(), 1 - 8.7 / 11.5, 0.02);
}

// Each kind has times of its own: a prefill that two threads halve says nothing about decoding, bound by memory.
TEST(CoreSharing, KindsOfStepsChooseForThemselves) {
  Scene scene(2, 1);
  scene.settle(10'000, 1.0, {false, 4});
  scene.settle(100'000, 2.0, {true, 256});
  int decode = 0, prefill = 0;
  for (int i = 0; i < 50; ++i) {
    decode += scene.step(10'000, {false, 4});
    prefill += scene.step(100'000, {true, 256});
  }
  EXPECT_LE(decode, 55);
  EXPECT_GE(prefill, 99);
}

TEST(CoreSharing, IsIdleOnlyBetweenStepsFarApart) {
  Scene scene(2, 1);
  EXPECT_TRUE(scene.cores->idle());
  scene.cores->begin_step({true, 256});
  now_us += 400'000;
  EXPECT_FALSE(scene.cores->idle()) << "a long prefill is no pause";
  scene.cores->end_step(400'000, 0);
  now_us += 1'000;
  EXPECT_FALSE(scene.cores->idle());
  now_us += 5'000;
  EXPECT_TRUE(scene.cores->idle());
}

TEST(CoreSharing, ABackgroundStepIsIdleTimeAndHasAllThreads) {
  Scene scene(2, 1);
  scene.cores->begin_step({false, 4});
  scene.cores->end_step(1'000, 1);
  now_us += 2'000'000;
  scene.cores->begin_background_step();
  EXPECT_EQ(scene.pool.n_used(), 2);
  EXPECT_TRUE(scene.cores->idle());
  EXPECT_EQ(scene.cores->idle_us(), 2'000'000);
  EXPECT_FALSE(scene.cores->ran_leased());
  EXPECT_FALSE(scene.cores->ran_trial());
  scene.cores->begin_step({false, 4});
  EXPECT_EQ(scene.cores->idle_us(), 0);
}

// The engine calls begin_step() with the planned rows: a prompt's rows, then one row per sequence and its proposal.
TEST(CoreSharing, TheEngineTellsItOfEveryStep) {
  ThreadPool pool(2);
  CoreSharing cores(pool, 1);
  const testing::ToyLanguage language;
  auto worker = std::make_unique<testing::ToyWorker>(language, testing::ToyWorker::Size{});
  testing::RecordingListener listener;
  Engine engine({}, std::move(worker), nullptr,
                std::make_unique<testing::ToyProposer>(language, testing::ToyProposer::Options{.likeness = 1}), nullptr,
                {&listener}, &cores);
  testing::Answer answer;
  Request request = testing::full_request(1, {3, 4, 5}, answer);
  request.max_tokens = 12;
  engine.submit(std::move(request));
  cores.begin_unit(true);
  ASSERT_TRUE(engine.step());
  EXPECT_EQ(pool.n_used(), 2) << "the prompt";
  ASSERT_TRUE(engine.step());
  EXPECT_EQ(pool.n_used(), 1);
  cores.end_unit();
  ASSERT_TRUE(engine.step());
  EXPECT_EQ(pool.n_used(), 2);
  EXPECT_TRUE(testing::drain(engine));
  EXPECT_EQ(cores.totals().committed, 12);
  EXPECT_GT(cores.totals().busy_us, 0);
}

}  // namespace
}  // namespace slip
