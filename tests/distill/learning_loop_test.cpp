// SPDX-License-Identifier: Apache-2.0
// The work of a learning loop, and isolation when another topic is published or fails.
#include "distill/learning_loop.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/fail_point.h"
#include "distill/resident_trainers.h"
#include "tests/distill/two_topics.h"

namespace slip {
namespace {

using testing::answered;
using testing::kPatienceUs;
using testing::LearnerSetup;
using testing::stream;
using testing::tell;
using testing::TwoTopics;

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

// Draws from the replay buffer, and notes up to where.
class Noting final : public ReplayReader {
 public:
  explicit Noting(const ReplayBuffer& replay) : replay_(replay) {}
  std::vector<ReplayRecord> sample(const std::string& topic, std::size_t n, std::uint64_t seed, std::uint64_t draw,
                                   std::uint64_t newest) const override {
    drawn_up_to.push_back(newest);
    n_prepared += prepared == SampleAddress{topic, n, seed, draw, newest} ? 1 : 0;
    return replay_.sample(topic, n, seed, draw, newest);
  }
  std::vector<ReplayRecord> heldout(const std::string& topic, std::size_t limit, std::uint64_t newest) const override {
    return replay_.heldout(topic, limit, newest);
  }

  void prepare(const SampleAddress& next) const noexcept override { prepared = next; }

  mutable std::vector<std::uint64_t> drawn_up_to;
  mutable SampleAddress prepared;
  mutable std::size_t n_prepared = 0;  // samples that were announced

 private:
  const ReplayBuffer& replay_;
};

// Records reach replay before the loop has scored them. Trained on unscored, they would be lost as evidence.
TEST(LearningLoop, TrainsOnNoRecordThatItHasNotTaken) {
  LearnerSetup setup;
  Noting replay(setup.replay);
  LearningLoop loop = setup.make_loop(replay, [] { return true; });
  for (std::uint64_t id = 1; id <= 24; ++id) {
    ReplayRecord record = answered(id);
    record.topic = "sql";
    record.sequence = setup.replay.append(record);
    if (id <= 16) loop.take({std::move(record), true, false, monotonic_us()});
  }
  while (const auto unit = loop.next_unit(/*may_train=*/true)) loop.run(*unit);
  ASSERT_FALSE(replay.drawn_up_to.empty());
  for (const std::uint64_t newest : replay.drawn_up_to) EXPECT_EQ(newest, 16U);
  EXPECT_EQ(replay.n_prepared, replay.drawn_up_to.size() - 1) << "each but the first is announced";
}

// Regression: the time of abandoned steps, of failed ones and of exports was not counted.
TEST(LearningLoop, AnAbandonedStepCountsAsTraining) {
  LearnerSetup setup;
  LearningLoop loop = setup.make_loop(setup.replay, [] { return false; });
  for (std::uint64_t id = 1; id <= 16; ++id) setup.take(loop, id);
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
  for (std::uint64_t id = 1; id <= 16; ++id) setup.take(loop, id);
  while (const auto unit = loop.next_unit(/*may_train=*/true)) loop.run(*unit);
  const LearningFigures figures = loop.figures(monotonic_us());
  EXPECT_GT(figures.candidate_bytes, 0U);
  EXPECT_EQ(figures.topics.at(0).optimizer_steps, 1U);
  EXPECT_EQ(asked_by_exports, 4) << "two exports were abandoned, and a third one asked twice";
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
TEST(LearningLoop, AFailureThatLastsIsLoggedOnceAndItsEndToo) {
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
  testing::expect_logged_once(said, "sql: training failed", "failed");
  EXPECT_NE(said.find("sql: training works again"), std::string::npos) << said;
  EXPECT_GT(setup.recorded.figures().topics.at(0).optimizer_steps, 0U);
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
