// SPDX-License-Identifier: Apache-2.0
// What a learner does next: the order of turns over topics, and when scoring and training begin.
#include "distill/unit_choice.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/clock.h"
#include "tests/common/test_clock.h"
#include "tests/distill/two_topics.h"

namespace slip {
namespace {

using testing::answered;
using testing::GrantsOnDemand;
using testing::kPatienceUs;
using testing::LearnerSetup;
using testing::stream;
using testing::tell;
using testing::TwoTopics;

// Regression: scoring that had failed was tried again at once, and each time the topic lost its trainer.
TEST(UnitChoice, AfterAFailedScoreItsTopicWaits) {
  testing::TestClock clock(1);
  LearnerSetup setup;
  setup.break_base();
  LearningLoop loop = setup.make_loop(setup.replay, [] { return true; });
  for (std::uint64_t id = 1; id <= 16; ++id) setup.take(loop, id);
  ASSERT_EQ(loop.next_unit(/*may_train=*/true), LearningUnit::kScoring);
  loop.run(LearningUnit::kScoring);
  EXPECT_TRUE(loop.failing());
  EXPECT_EQ(loop.next_unit(/*may_train=*/true), std::nullopt) << "nor does it train on what is not scored";
  clock.advance(wait_after_failures_us(1));
  EXPECT_EQ(loop.next_unit(/*may_train=*/true), LearningUnit::kScoring);
  EXPECT_EQ(loop.figures(monotonic_us()).topics.at(0).records_waiting, 15U);
}

// Regression: with a base draft that computes NaN, a trainer was made and deleted every 30 s for ever.
TEST(UnitChoice, AfterTenFailuresOfOneCauseInTheWeightsItsTopicStops) {
  testing::TestClock clock(1);
  LearnerSetup setup;
  setup.break_base();
  LearningLoop loop = setup.make_loop(setup.replay, [] { return true; });
  for (std::uint64_t id = 1; id <= 32; ++id) setup.take(loop, id);
  ::testing::internal::CaptureStderr();
  for (int n = 1; n <= 10; ++n) {
    ASSERT_EQ(loop.next_unit(/*may_train=*/true), LearningUnit::kScoring) << n;
    loop.run(LearningUnit::kScoring);
    clock.advance(wait_after_failures_us(n));
  }
  const std::string logged = ::testing::internal::GetCapturedStderr();
  const auto warning = logged.find("is not tried again: the model computed a logit that is not a number");
  ASSERT_NE(warning, std::string::npos) << logged;
  EXPECT_NE(logged.find("; check the base draft with `slipstream inspect`, serve another draft, and restart", warning),
            std::string::npos)
      << logged;
  clock.advance(std::int64_t{3600} * 1'000'000);
  setup.take(loop, 33);
  EXPECT_EQ(loop.next_unit(/*may_train=*/true), std::nullopt);
  EXPECT_FALSE(loop.holds_records());
  EXPECT_TRUE(loop.failing());
}

// Regression: the same fault of a disk may end by itself, so it is tried again for ever.
TEST(UnitChoice, NegativeAFaultOfTheDiskIsTriedAgainAfterTenFailures) {
  testing::TestClock clock(1);
  LearnerSetup setup;
  LearningLoop loop = setup.make_loop(setup.replay, [] { return true; });
  std::filesystem::rename(setup.store.root() / "base", setup.folder.path() / "away");
  for (std::uint64_t id = 1; id <= 32; ++id) setup.take(loop, id);
  int n_tries = 0;
  for (int i = 0; i < 100 && n_tries < 12; ++i) {
    const auto unit = loop.next_unit(/*may_train=*/true);
    if (unit == LearningUnit::kTraining) ++n_tries;
    if (unit) loop.run(*unit);
    clock.advance(wait_after_failures_us(100));
  }
  EXPECT_EQ(n_tries, 12);
}

// Allows no training, and keeps the shares of steps that it was told.
class ShareReader final : public Governor {
 public:
  bool allow_unit(LearningUnit) noexcept override { return true; }
  void unit_done() noexcept override {}
  StepDecision allow_step(const TopicProgress& topic) noexcept override {
    shares.at(topic.topic) = topic.step_share;
    return {false, "flat", 0};
  }

  std::array<double, 2> shares{};
};

// The share was one of requests: a topic of many short answers was trained as if it took the target as long as others.
TEST(UnitChoice, ATopicOfShortAnswersHasASmallShareOfTheSteps) {
  TwoTopics setup;
  ShareReader governor;
  auto learner = setup.learner_of_both(governor);
  learner->start();
  for (std::uint64_t id = 1; id <= 40; ++id) {
    tell(*learner, answered(2 * id, 4, 32), true, 1);
    tell(*learner, answered(2 * id + 1, 4, 8), true, 2);
  }
  ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  learner->stop();
  EXPECT_GT(governor.shares[0], 0.7);
  EXPECT_NEAR(governor.shares[0] + governor.shares[1], 1, 1e-9);
}

// The governor of a busy engine: allows no training and records the units that it grants.
class Observer final : public Governor {
 public:
  bool allow_unit(LearningUnit unit) noexcept override {
    if (refuses) return false;
    (unit == LearningUnit::kScoringInGaps ? in_gaps : leased) += 1;
    return true;
  }
  void unit_done() noexcept override {}
  StepDecision allow_step(const TopicProgress&) noexcept override { return {false, "flat", 0}; }
  bool engine_idle() const noexcept override { return false; }

  std::atomic<bool> refuses{false};
  std::atomic<int> in_gaps{0}, leased{0};
};

// Records that come one by one are scored in the engine's gaps; many at once are scored with a lease.
TEST(UnitChoice, ALeaseIsAskedForOnlyWhenSeveralRecordsWait) {
  LearnerSetup setup;
  Observer governor;
  auto learner = setup.make_learner(governor);
  learner->start();
  const std::int64_t end_us = monotonic_us() + 3 * kPatienceUs;
  const auto wait_until = [&](const auto& reached) {
    while (!reached() && monotonic_us() < end_us) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  for (int n = 1; n <= 4; ++n) {
    tell(*learner, answered(static_cast<std::uint64_t>(n)));
    wait_until([&] { return governor.in_gaps == n; });
  }
  EXPECT_EQ(governor.leased, 0);
  governor.refuses = true;
  for (std::uint64_t id = 5; id <= 52; ++id) tell(*learner, answered(id));
  wait_until([&] { return learner->replay_records() == 52; });
  governor.refuses = false;
  wait_until([&] { return governor.leased == 12; });
  learner->stop();
  EXPECT_EQ(governor.leased, 12) << "a quarter of them, since nothing waits for a decision";
  EXPECT_EQ(governor.in_gaps, 4);
}

// Regression: steps on a topic's first batch alone overfitted it.
TEST(UnitChoice, ATopicsFirstStepsWaitForTwoBatches) {
  LearnerSetup setup;
  const auto batch = static_cast<std::uint64_t>(setup.options.batch_requests);
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  stream(*learner, 1, 2 * batch - 1);
  ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  EXPECT_EQ(setup.recorded.figures().topics.at(0).optimizer_steps, 0U);
  stream(*learner, 2 * batch, 1);
  ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  learner->stop();
  EXPECT_GT(setup.recorded.figures().topics.at(0).optimizer_steps, 0U);
}

// The state said only that the topic waits, not for how many.
TEST(UnitChoice, ATopicThatWaitsReportsForHowManyRequests) {
  LearnerSetup setup;
  setup.options.batch_requests = 8;
  LearningLoop loop = setup.make_loop(setup.replay, [] { return true; });
  const auto state_after = [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t id = first; id <= last; ++id) setup.take(loop, id);
    while (const auto unit = loop.next_unit(/*may_train=*/true)) loop.run(*unit);
    return loop.figures(monotonic_us()).topics.at(0).state;
  };
  EXPECT_EQ(state_after(1, 3), "waits for requests: 3 of 16");
  EXPECT_EQ(state_after(4, 15), "waits for requests: 15 of 16");
  EXPECT_EQ(state_after(16, 16), "waits for requests") << "it took a step for each request";
  EXPECT_EQ(state_after(17, 19), "waits for requests: 3 of 8");
  EXPECT_EQ(loop.figures(monotonic_us()).topics.at(0).optimizer_steps, 16U);
}

// Regression: a topic whose replay buffer holds less than two batches was never trained.
TEST(UnitChoice, ASmallReplayBufferDoesNotKeepATopicFromItsFirstStep) {
  LearnerSetup setup(4 * bytes_of(answered(1)));
  const auto batch = static_cast<std::uint64_t>(setup.options.batch_requests);
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  stream(*learner, 1, 4 * batch);
  ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  learner->stop();
  EXPECT_LT(setup.replay.records("sql"), kFirstBatches * batch);
  EXPECT_GT(setup.recorded.figures().topics.at(0).optimizer_steps, 0U);
}

// A topic's few records are scored soon, although another topic has many.
TEST(UnitChoice, ABusyTopicDoesNotKeepAnotherWaiting) {
  TwoTopics setup;
  GrantsOnDemand governor(/*trains=*/false);
  auto learner = setup.learner_of_both(governor);
  for (std::uint64_t id = 1; id <= 100; ++id) tell(*learner, answered(id), true, 1);
  for (std::uint64_t id = 101; id <= 104; ++id) tell(*learner, answered(id), true, 2);
  learner->start();
  const auto n_waiting = [&] {
    std::uint64_t n = 0;
    for (const auto& topic : setup.recorded.figures().topics) n += topic.records_waiting;
    return n;
  };
  for (const std::int64_t until_us = monotonic_us() + kPatienceUs; n_waiting() < 104 && monotonic_us() < until_us;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_EQ(n_waiting(), 104U) << "all records are taken in, none is scored";
  governor.grants = true;
  ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  learner->stop();
  const auto scores = setup.recorded.scores();
  ASSERT_EQ(scores.size(), 104U);
  std::size_t last = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) last = scores[i].topic == "math" ? i : last;
  EXPECT_LT(last, 16U);
}

}  // namespace
}  // namespace slip
