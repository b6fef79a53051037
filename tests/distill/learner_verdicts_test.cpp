// SPDX-License-Identifier: Apache-2.0
// Decisions about candidates and live versions: publish, refuse, roll back.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "common/fail_point.h"
#include "distill/learner.h"
#include "tests/distill/learner_fixture.h"

namespace slip {
namespace {

using testing::answered;
using testing::kPatienceUs;
using testing::kTinyVocab;
using testing::LearnerSetup;
using testing::stream;
using testing::tell;
using testing::tiny_config;

TEST(Learner, EveryDecisionHasItsFigures) {
  LearnerSetup setup;
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  stream(*learner, 1, 96);
  learner->stop();
  ASSERT_FALSE(setup.recorded.decisions().empty());
  for (const CanaryDecision& decision : setup.recorded.decisions()) {
    EXPECT_EQ(decision.topic, "sql");
    EXPECT_EQ(decision.draft, "sql");
    EXPECT_GT(decision.at_us, 0);
    EXPECT_GE(decision.verdict.requests, setup.options.canary.min_requests);
    EXPECT_FALSE(decision.verdict.reason.empty());
    EXPECT_EQ(decision.candidate_version != 0, decision.kind == "publish");
    EXPECT_GT(decision.train_steps, 0U);
  }
}

// A candidate trained on right answers with wrong distributions never goes live.
TEST(Learner, NegativeACandidateTrainedOnShuffledLabelsIsNeverPublished) {
  LearnerSetup setup;
  setup.options.trainer.scale_by_loss = false;  // or it would still get better on what it learned rightly before
  const auto good = learn_first(setup);
  const double alpha = setup.alpha(*good->weights);
  ASSERT_GT(alpha, 0.5);
  const std::size_t published = setup.recorded.count("publish");
  setup.options.trainer.learning_rate = 2e-2;
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  for (std::uint64_t id = 1001; id <= 1160; ++id) {
    ReplayRecord record = answered(id);
    for (TopK& top : record.target) {
      for (std::int32_t& token : top.ids) token = (token + 17) % kTinyVocab;
    }
    tell(*learner, record);
    if (id % 8 != 0) continue;
    ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  }
  learner->stop();
  EXPECT_EQ(setup.recorded.count("publish"), published);
  EXPECT_GE(setup.recorded.count("refuse"), 1U);
  EXPECT_EQ(setup.live_draft->get()->number, good->number);
  EXPECT_EQ(setup.alpha(*setup.live_draft->get()->weights), alpha);
}

TEST(Learner, NegativeWeightsThatAreNotFiniteNeverLeave) {
  LearnerSetup setup;
  setup.options.trainer.learning_rate = std::nan("");
  setup.options.steps_between_candidates = 4;
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  stream(*learner, 1, 64);
  learner->stop();
  EXPECT_EQ(setup.recorded.count("publish"), 0U);
  EXPECT_GE(setup.recorded.count("refuse"), 1U);
  EXPECT_EQ(setup.live_draft->get()->weights, setup.base->weights);
  for (const CanaryDecision& decision : setup.recorded.decisions()) {
    EXPECT_NE(decision.verdict.reason.find("not exported"), std::string::npos) << decision.verdict.reason;
  }
}

// A bad version that is live anyway (here: set by hand) is detected and rolled back.
TEST(Learner, AForcedBadPublishIsRolledBack) {
  LearnerSetup setup;
  const auto good = learn_first(setup);
  const auto bad = setup.adopt("sql", 77, good->number);
  setup.live_draft->set(bad);
  auto no_training = make_steps_per_request_governor(0);
  auto learner = setup.make_learner(*no_training);
  learner->start();
  stream(*learner, 2001, 32);
  learner->stop();
  EXPECT_EQ(setup.recorded.count("rollback"), 1U);
  EXPECT_EQ(setup.live_draft->get()->number, good->number);
  EXPECT_EQ(setup.store.current("sql")->version, good->number);
  EXPECT_GT(setup.alpha(*setup.live_draft->get()->weights), setup.alpha(*bad->weights) + 0.2);
}

// Regression: after a rollback to the predecessor, the base draft's acceptance was taken for the live version's, which
// looks like a sudden fall.
TEST(Learner, ARollbackToThePredecessorKeepsItsAcceptance) {
  LearnerSetup setup;
  const auto good = learn_first(setup);
  ASSERT_GT(setup.alpha(*good->weights), setup.alpha(*setup.base->weights) + 0.3);
  setup.live_draft->set(setup.adopt("sql", 77, good->number));
  auto no_training = make_steps_per_request_governor(0);
  auto learner = setup.make_learner(*no_training);
  kernels::ThreadPool pool(1);
  DraftScorer scorer(tiny_config(), 256, pool);
  AcceptanceScore of_good;
  learner->start();
  // One more record is scored after the rollback, since only a scored record changes the figure.
  bool rolled_back = false;
  for (std::uint64_t id = 2001; id <= 2032 && !rolled_back; ++id) {
    rolled_back = setup.recorded.count("rollback") > 0;
    tell(*learner, answered(id));
    ASSERT_TRUE(learner->wait_idle(kPatienceUs));
    of_good += scorer.score(*good->weights, answered(id), setup.options.k);
  }
  learner->stop();
  ASSERT_EQ(setup.recorded.count("rollback"), 1U);
  EXPECT_EQ(setup.live_draft->get()->number, good->number);
  EXPECT_NEAR(setup.recorded.figures().topics.at(0).alpha_live, of_good.alpha(), 0.05);
}

// Regression: a full disk kept a bad version live: nothing was scored, and a rollback had to be written first.
TEST(Learner, ABadVersionIsGoneAlsoWhileTheDiskIsFull) {
  LearnerSetup setup;
  const auto good = learn_first(setup);
  ASSERT_GT(setup.alpha(*good->weights), 0.4);
  setup.live_draft->set(setup.adopt("sql", 77, good->number));
  setup.options.disk = std::make_shared<DiskSpace>(setup.folder.path(), 100, [] { return std::uint64_t{50}; });
  auto learner = setup.make_learner(*setup.governor);
  arm_fail_point("rollback.current.write:1:enospc");
  learner->start();
  stream(*learner, 2001, 32);
  learner->stop();
  arm_fail_point("");
  EXPECT_EQ(setup.recorded.count("rollback"), 1U);
  EXPECT_GT(setup.alpha(*setup.live_draft->get()->weights), 0.4);
}

// The first version's predecessor is the base draft, which is no version of the topic's draft: a rollback publishes its
// weights as one.
TEST(Learner, ABadFirstVersionGoesBackToTheBaseWeights) {
  LearnerSetup setup;
  ReplayRecord lesson = answered(1);
  DraftTrainer good(tiny_config(), 5, {.learning_rate = 5e-3});
  for (int i = 0; i < 150; ++i) good.step(std::span(&lesson, 1));
  const auto staged = setup.store.staging_folder("base");
  good.export_draft(staged);
  DraftMeta meta;
  meta.draft = "base";
  meta.reason = "base";
  meta = setup.store.publish(staged, meta);
  setup.base = setup.load("base", meta.version);
  setup.live_draft->set(setup.adopt("sql", 77, setup.base->number));
  auto no_training = make_steps_per_request_governor(0);
  auto learner = setup.make_learner(*no_training);
  learner->start();
  stream(*learner, 1, 32);
  learner->stop();
  EXPECT_EQ(setup.recorded.count("rollback"), 1U);
  EXPECT_EQ(setup.live_draft->get()->weights, setup.base->weights);
  const auto current = setup.store.current("sql");
  EXPECT_EQ(current->version, 2U);
  EXPECT_EQ(current->version, setup.live_draft->get()->number);
  EXPECT_EQ(current->reason, "rollback");
}

}  // namespace
}  // namespace slip
