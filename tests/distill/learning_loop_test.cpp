// SPDX-License-Identifier: Apache-2.0
// Several topics in one learning loop: the order of turns, and isolation when another topic is published or fails.
#include "distill/learning_loop.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "common/clock.h"
#include "common/fail_point.h"
#include "common/file.h"
#include "distill/resident_trainers.h"
#include "tests/common/test_clock.h"
#include "tests/distill/learner_fixture.h"

namespace slip {
namespace {

using testing::answered;
using testing::GrantsOnDemand;
using testing::kPatienceUs;
using testing::LearnerSetup;
using testing::stream;
using testing::tell;

// A learner fixture with a second topic.
class TwoTopics : public LearnerSetup {
 public:
  TwoTopics() {
    topics = TopicTable({{"sql", {}}, {"math", {}}});
    other = std::make_shared<LiveDraft>(DraftId{2}, "math", version_of(DraftId{2}, "math"));
  }
  std::shared_ptr<const DraftVersion> version_of(DraftId id, const std::string& name) {
    if (const auto current = store.current(name)) {
      const auto weights = ModelWeights::load(store.folder(name, current->version), Dtype::kFloat32, true);
      return std::make_shared<DraftVersion>(DraftVersion{id, name, current->version, 0, weights});
    }
    return std::make_shared<DraftVersion>(DraftVersion{id, name, 0, 0, base->weights});
  }
  std::unique_ptr<Learner> learner_of_both(Governor& policy) {
    return std::make_unique<Learner>(options, topics,
                                     std::vector<std::shared_ptr<LiveDraft>>{nullptr, live_draft, other}, base, store,
                                     replay, policy, recorded);
  }
  // 8 requests of one topic and then 8 of the other, so that topics change with every batch.
  void stream_both(Learner& learner, std::uint64_t first_id, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (const std::uint32_t topic : {1U, 2U}) {
        for (std::uint64_t i = 0; i < 8; ++i) {
          tell(learner, answered(first_id++), true, topic);
        }
        ASSERT_TRUE(learner.wait_idle(kPatienceUs));
      }
    }
  }
  std::string state_of(const std::string& draft) const {
    return read_file(options.optimizer_folder / (draft + ".opt"), std::uint64_t{1} << 30);
  }

  std::shared_ptr<LiveDraft> other;
};

TEST(LearningLoop, BothTopicsArePublished) {
  TwoTopics setup;
  auto learner = setup.learner_of_both(*setup.governor);
  learner->start();
  setup.stream_both(*learner, 1, 16);
  learner->stop();
  EXPECT_GT(setup.alpha(*setup.live_draft->get()->weights), setup.alpha(*setup.base->weights) + 0.3);
  EXPECT_GT(setup.alpha(*setup.other->get()->weights), setup.alpha(*setup.base->weights) + 0.3);
  const LearningFigures figures = setup.recorded.figures();
  ASSERT_EQ(figures.topics.size(), 2U);
  for (const TopicLearning& topic : figures.topics) {
    EXPECT_EQ(topic.requests, 128U) << topic.topic;
    EXPECT_GE(topic.published, 1U) << topic.topic;
    EXPECT_EQ(topic.trainer_restarts, 0U) << topic.topic;
    EXPECT_GT(topic.alpha_live, topic.alpha_base) << topic.topic;
    EXPECT_GT(topic.training_s, 0) << topic.topic;
  }
  EXPECT_GT(figures.trainer_bytes, 0U);
}

// Regression: publishing wrote one topic's lineage over the resident trainer of another; both restarted from zero
// moments.
TEST(LearningLoop, ARestartBetweenPublicationsContinuesBothOptimizersBitForBit) {
  std::string sql, math;
  {
    TwoTopics setup;
    auto learner = setup.learner_of_both(*setup.governor);
    learner->start();
    setup.stream_both(*learner, 1, 12);
    learner->stop();
    ASSERT_GE(setup.recorded.count("publish"), 2U);
    sql = setup.state_of("sql");
    math = setup.state_of("math");
  }
  TwoTopics setup;
  for (std::uint64_t first_id = 1; first_id < 12 * 16; first_id += 4 * 16) {
    setup.live_draft = std::make_shared<LiveDraft>(DraftId{1}, "sql", setup.version_of(DraftId{1}, "sql"));
    setup.other = std::make_shared<LiveDraft>(DraftId{2}, "math", setup.version_of(DraftId{2}, "math"));
    auto learner = setup.learner_of_both(*setup.governor);
    learner->start();
    setup.stream_both(*learner, first_id, 4);
    learner->stop();
  }
  EXPECT_TRUE(setup.state_of("sql") == sql);
  EXPECT_TRUE(setup.state_of("math") == math);
}

// Regression: scoring that had failed was tried again at once, and each time the topic lost its trainer.
TEST(LearningLoop, AfterAFailedScoreItsTopicWaits) {
  testing::TestClock clock(1);
  LearnerSetup setup;
  DraftVersion broken = *setup.base;
  broken.weights = testing::broken_weights();
  setup.base = std::make_shared<const DraftVersion>(std::move(broken));
  setup.live_draft->set(setup.under_own_name());
  LearningLoop loop = setup.make_loop(setup.replay, [] { return true; });
  for (std::uint64_t id = 1; id <= 16; ++id) {
    ReplayRecord record = answered(id);
    record.sequence = setup.replay.append(record);
    loop.take({std::move(record), true, false, monotonic_us()});
  }
  ASSERT_EQ(loop.next_unit(/*may_train=*/true), LearningUnit::kScoring);
  loop.run(LearningUnit::kScoring);
  EXPECT_TRUE(loop.failing());
  EXPECT_EQ(loop.next_unit(/*may_train=*/true), std::nullopt) << "nor does it train on what is not scored";
  clock.advance(wait_after_failures_us(1));
  EXPECT_EQ(loop.next_unit(/*may_train=*/true), LearningUnit::kScoring);
  EXPECT_EQ(loop.figures(monotonic_us()).topics.at(0).records_waiting, 15U);
}

// Regression: the time of abandoned steps, of failed ones and of exports was not counted.
// Regression: with a base draft that computes NaN, a trainer was made and deleted every 30 s for ever.
TEST(LearningLoop, AfterTenFailuresOfOneCauseInTheWeightsItsTopicStops) {
  testing::TestClock clock(1);
  LearnerSetup setup;
  DraftVersion broken = *setup.base;
  broken.weights = testing::broken_weights();
  setup.base = std::make_shared<const DraftVersion>(std::move(broken));
  setup.live_draft->set(setup.under_own_name());
  LearningLoop loop = setup.make_loop(setup.replay, [] { return true; });
  const auto take = [&](std::uint64_t id) {
    ReplayRecord record = answered(id);
    record.sequence = setup.replay.append(record);
    loop.take({std::move(record), true, false, monotonic_us()});
  };
  for (std::uint64_t id = 1; id <= 32; ++id) take(id);
  ::testing::internal::CaptureStderr();
  for (int n = 1; n <= 10; ++n) {
    ASSERT_EQ(loop.next_unit(/*may_train=*/true), LearningUnit::kScoring) << n;
    loop.run(LearningUnit::kScoring);
    clock.advance(wait_after_failures_us(n));
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  const auto warning = said.find("is not tried again: the model computed a logit that is not a number");
  ASSERT_NE(warning, std::string::npos) << said;
  EXPECT_NE(said.find("restart", warning), std::string::npos) << said;
  clock.advance(std::int64_t{3600} * 1'000'000);
  take(33);
  EXPECT_EQ(loop.next_unit(/*may_train=*/true), std::nullopt);
  EXPECT_FALSE(loop.holds_records());
  EXPECT_TRUE(loop.failing());
}

// Regression: the same fault of a disk may end by itself, so it is tried again for ever.
TEST(LearningLoop, NegativeAFaultOfTheDiskIsTriedAgainAfterTenFailures) {
  testing::TestClock clock(1);
  LearnerSetup setup;
  LearningLoop loop = setup.make_loop(setup.replay, [] { return true; });
  std::filesystem::rename(setup.store.root() / "base", setup.folder.path() / "away");
  for (std::uint64_t id = 1; id <= 32; ++id) {
    ReplayRecord record = answered(id);
    record.sequence = setup.replay.append(record);
    loop.take({std::move(record), true, false, monotonic_us()});
  }
  int n_tries = 0;
  for (int i = 0; i < 100 && n_tries < 12; ++i) {
    const auto unit = loop.next_unit(/*may_train=*/true);
    if (unit == LearningUnit::kTraining) ++n_tries;
    if (unit) loop.run(*unit);
    clock.advance(wait_after_failures_us(100));
  }
  EXPECT_EQ(n_tries, 12);
}

TEST(LearningLoop, AnAbandonedStepCountsAsTraining) {
  LearnerSetup setup;
  LearningLoop loop = setup.make_loop(setup.replay, [] { return false; });
  for (std::uint64_t id = 1; id <= 16; ++id) {
    ReplayRecord record = answered(id);
    record.sequence = setup.replay.append(record);
    loop.take({std::move(record), true, false, monotonic_us()});
  }
  std::optional<LearningUnit> unit = loop.next_unit(/*may_train=*/true);
  for (; unit && is_scoring(*unit); unit = loop.next_unit(/*may_train=*/true)) loop.run(*unit);
  ASSERT_EQ(unit, LearningUnit::kTraining);
  loop.run(*unit);
  const TopicLearning figures = loop.figures(monotonic_us()).topics.at(0);
  EXPECT_EQ(figures.optimizer_steps, 0U);
  EXPECT_GT(figures.training_s, 0);
}

// Regression: 128 records waited whatever their length, and long answers to a busy service took gigabytes.
TEST(LearningLoop, LongAnswersThatWaitAreDroppedBeforeThereAreMany) {
  LearnerSetup setup;
  LearningLoop loop = setup.make_loop(setup.replay, [] { return true; });
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ReplayRecord record = answered(id);
    record.sequence = id;
    record.target.resize(100'000);
    loop.take({std::move(record), true, false, monotonic_us()});
  }
  const TopicLearning figures = loop.figures(monotonic_us()).topics.at(0);
  EXPECT_EQ(figures.records_waiting, 1U);
  EXPECT_EQ(figures.records_unscored, 2U);
}

// A governor that allows as many steps as one export needs, and keeps the learning curve of the last call.
class OneExport final : public Governor {
 public:
  explicit OneExport(std::uint64_t steps) : steps_(steps) {}
  bool allow_unit(LearningUnit) noexcept override { return true; }
  void unit_done() noexcept override {}
  StepDecision allow_step(const TopicProgress& topic) noexcept override {
    curve = *topic.curve;
    return {topic.steps_done < steps_, "", 0};
  }

  LearningCurve curve;

 private:
  std::uint64_t steps_;
};

// Regression: an abandoned export waited for a further step, which the governor may never allow.
TEST(LearningLoop, AnAbandonedExportIsTriedAgainWithoutAFurtherStep) {
  LearnerSetup setup;
  setup.options.steps_between_candidates = 1;
  setup.governor = std::make_unique<OneExport>(/*steps=*/1U);
  const LearningLoop* asks = nullptr;
  int asked_by_exports = 0;
  LearningLoop loop = setup.make_loop(setup.replay, [&] {
    const bool steps = asks->figures(monotonic_us()).topics.at(0).optimizer_steps == 0;
    return steps || ++asked_by_exports > 2;
  });
  asks = &loop;
  for (std::uint64_t id = 1; id <= 16; ++id) {
    ReplayRecord record = answered(id);
    record.sequence = setup.replay.append(record);
    loop.take({std::move(record), true, false, monotonic_us()});
  }
  while (const auto unit = loop.next_unit(/*may_train=*/true)) loop.run(*unit);
  const LearningFigures figures = loop.figures(monotonic_us());
  EXPECT_GT(figures.candidate_bytes, 0U);
  EXPECT_EQ(figures.topics.at(0).optimizer_steps, 1U);
  EXPECT_EQ(asked_by_exports, 4) << "two exports were abandoned, and a third one asked twice";
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
TEST(LearningLoop, ATopicOfShortAnswersHasASmallShareOfTheSteps) {
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
TEST(LearningLoop, ALeaseIsAskedForOnlyWhenSeveralRecordsWait) {
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

// Regression: only exports replaced by a newer one became points of the curve, so a topic whose exports were all
// published was predicted to rise as fast as at its start.
TEST(LearningLoop, APublishedExportIsAPointOfTheLearningCurve) {
  LearnerSetup setup;
  OneExport governor(static_cast<std::uint64_t>(setup.options.steps_between_candidates));
  auto learner = setup.make_learner(governor);
  learner->start();
  stream(*learner, 1, 64);
  learner->stop();
  ASSERT_EQ(setup.recorded.count("publish"), 1U);
  EXPECT_GT(governor.curve.latest_steps(), 0);
}

// Regression: a restarted service took the topic for a new one whose draft is good already, and trained it no more.
TEST(LearningLoop, ARestartKeepsTheLearningCurve) {
  LearnerSetup setup;
  OneExport before(static_cast<std::uint64_t>(setup.options.steps_between_candidates)), after(0);
  auto learner = setup.make_learner(before);
  learner->start();
  stream(*learner, 1, 64);
  learner->stop();
  ASSERT_FALSE(before.curve.empty());
  const auto current = setup.store.current("sql");
  ASSERT_TRUE(current.has_value());
  setup.live_draft = std::make_shared<LiveDraft>(DraftId{1}, "sql", setup.load("sql", current->version));
  learner = setup.make_learner(after);
  learner->start();
  stream(*learner, 5001, 2);
  learner->stop();
  EXPECT_TRUE(after.curve == before.curve);
}

// Regression: the interval between exports counted the steps since the process began. After a restart, an old trainer
// exported as often as a new one, and each export is a chance of a false publication.
TEST(LearningLoop, AnOldTrainerExportsRarelyAfterARestartToo) {
  for (const int earlier_steps : {0, 60}) {
    LearnerSetup setup;
    setup.options.steps_between_candidates = 1;
    {
      DraftSource base;
      base.version = setup.base;
      base.name = setup.base->name;
      base.number = setup.base->number;
      base.folder = setup.store.folder(base.name, base.number);
      ResidentTrainers trainers({setup.options.trainer, setup.options.optimizer_folder});
      DraftTrainer& trainer = trainers.take("sql", base);
      const ReplayRecord lesson = answered(1'000'000);
      for (int i = 0; i < earlier_steps; ++i) trainer.step(std::span(&lesson, 1));
      ASSERT_GE(trainer.steps(), earlier_steps / 2) << "some may be skipped";
      trainers.save("sql");
    }
    OneExport governor(/*steps=*/2);
    auto learner = setup.make_learner(governor);
    learner->start();
    stream(*learner, 1, 16);
    learner->stop();
    const LearningFigures figures = setup.recorded.figures();
    ASSERT_EQ(figures.topics.at(0).optimizer_steps, 2U);
    EXPECT_EQ(figures.candidate_bytes > 0, earlier_steps == 0);
    EXPECT_EQ(setup.recorded.count("publish"), 0U) << "no request came after the steps";
  }
}

// Regression: steps on a topic's first batch alone overfitted it.
TEST(LearningLoop, ATopicsFirstStepsWaitForTwoBatches) {
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
TEST(LearningLoop, ATopicThatWaitsSaysForHowManyRequests) {
  LearnerSetup setup;
  setup.options.batch_requests = 8;
  LearningLoop loop = setup.make_loop(setup.replay, [] { return true; });
  const auto state_after = [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t id = first; id <= last; ++id) {
      ReplayRecord record = answered(id);
      record.sequence = setup.replay.append(record);
      loop.take({std::move(record), true, false, monotonic_us()});
    }
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
TEST(LearningLoop, ASmallReplayBufferDoesNotKeepATopicFromItsFirstStep) {
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

// Regression: with memory for one trainer, a full disk at a change of topics deleted the state of the next topic.
TEST(LearningLoop, AFullDiskWhileTrainersChangePlacesRestartsNobody) {
  TwoTopics setup;
  setup.options.memory_bytes = 1;
  auto learner = setup.learner_of_both(*setup.governor);
  learner->start();
  setup.stream_both(*learner, 1, 2);
  arm_fail_point("optimizer.write:1:enospc");
  setup.stream_both(*learner, 1001, 1);
  arm_fail_point("");
  setup.stream_both(*learner, 2001, 2);
  learner->stop();
  for (const TopicLearning& topic : setup.recorded.figures().topics) EXPECT_EQ(topic.trainer_restarts, 0U);
}

TEST(LearningLoop, AfterFailuresItWaitsASecondThenLongerUpToHalfAMinute) {
  EXPECT_EQ(wait_after_failures_us(1), 1'000'000);
  EXPECT_EQ(wait_after_failures_us(2), 2'000'000);
  EXPECT_EQ(wait_after_failures_us(5), 16'000'000);
  EXPECT_EQ(wait_after_failures_us(6), 30'000'000);
  EXPECT_EQ(wait_after_failures_us(1'000'000), 30'000'000);
}

// Regression: with a deleted data directory every step failed and logged, 872 lines in 13 s.
TEST(LearningLoop, AFailureThatLastsIsSaidOnceAndItsEndToo) {
  LearnerSetup setup;
  const auto base = setup.store.root() / "base", away = setup.folder.path() / "away";
  std::filesystem::rename(base, away);
  auto learner = setup.make_learner(*setup.governor);
  ::testing::internal::CaptureStderr();
  learner->start();
  stream(*learner, 1, 32);
  EXPECT_TRUE(learner->failing());
  std::filesystem::rename(away, base);
  for (std::int64_t until_us = monotonic_us() + kPatienceUs; learner->failing() && monotonic_us() < until_us;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(learner->failing());
  ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  learner->stop();
  const std::string said = ::testing::internal::GetCapturedStderr();
  const auto first = said.find("sql: training failed");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("failed", first + 20), std::string::npos) << said;
  EXPECT_NE(said.find("sql: training works again"), std::string::npos) << said;
  EXPECT_GT(setup.recorded.figures().topics.at(0).optimizer_steps, 0U);
}

// A topic's few records are scored soon, although another topic has many.
TEST(LearningLoop, ABusyTopicDoesNotKeepAnotherWaiting) {
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

// Regression: requests with penalties, a bias or a schema were not used for training.
TEST(LearningLoop, RequestsWithLogitsProcessorsTrainButAreNoEvidence) {
  TwoTopics setup;
  auto learner = setup.learner_of_both(*setup.governor);
  learner->start();
  for (std::uint64_t id = 1; id <= 64; ++id) {
    ReplayRecord record = answered(id);
    record.sampling.repetition_penalty = 1.2F;
    tell(*learner, record);
    if (id % 8 != 0) continue;
    ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  }
  learner->stop();
  EXPECT_EQ(setup.replay.records("sql"), 64U);
  EXPECT_TRUE(setup.recorded.scores().empty());
  EXPECT_EQ(setup.recorded.count("publish"), 0U);
  EXPECT_EQ(setup.recorded.figures().topics[0].optimizer_steps, 64U);
}

}  // namespace
}  // namespace slip
