// SPDX-License-Identifier: Apache-2.0
#include "distill/learner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/fail_point.h"
#include "distill/trainer_lineage.h"
#include "tests/common/patience.h"
#include "tests/distill/learner_fixture.h"
#include "tests/distill/replay/replay_fixture.h"

namespace slip {
namespace {

using testing::all_records;
using testing::answered;
using testing::kPatienceUs;
using testing::kTinyVocab;
using testing::LearnerSetup;
using testing::stream;
using testing::tell;

TEST(Learner, LearnsPublishesAndServesWhatItLearned) {
  LearnerSetup setup;
  const double before = setup.alpha(*setup.base->weights);
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  stream(*learner, 1, 160);
  learner->stop();
  const auto live = setup.live_draft->get();
  EXPECT_LT(before, 0.3);
  EXPECT_GT(setup.alpha(*live->weights), before + 0.3);
  EXPECT_GE(setup.recorded.count("publish"), 1U);
  // The store, the live draft and the ledger say the same.
  const auto current = setup.store.current("sql");
  ASSERT_TRUE(current.has_value());
  EXPECT_EQ(current->version, live->number);
  EXPECT_EQ(setup.recorded.published().back().version, live->number);
  const DraftMeta first = setup.recorded.published().front();
  EXPECT_EQ(first.parent, setup.base->number);
  EXPECT_EQ(first.topic, "sql");
  EXPECT_EQ(first.reason, "canary");
  EXPECT_GT(first.optimizer_steps, 0U);
  EXPECT_GT(first.trained_requests, 0U);
  EXPECT_GT(first.heldout_alpha, first.heldout_alpha_before);
  EXPECT_TRUE(std::filesystem::exists(setup.store.folder("sql", first.version) / "tokenizer.json"));
  // Every request is scored on the same text by the live draft and the base draft.
  const auto scores = setup.recorded.scores();
  EXPECT_EQ(scores.size(), 160U);
  EXPECT_GT(scores.back().live.alpha(), scores.back().base.alpha());
  EXPECT_EQ(scores.back().version, live->number);
  EXPECT_EQ(learner->dropped(), 0U);
  EXPECT_EQ(setup.replay.records("sql"), 160U);
}

TEST(Learner, APurgeReachesWhatHasJustFinishedAndWhatStillRuns) {
  LearnerSetup setup;
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  for (std::uint64_t id = 1; id <= 6; ++id) tell(*learner, answered(id));
  EXPECT_EQ(learner->purge({.calls = {RequestId{6}}}), 1U) << "its end was told a moment ago";
  EXPECT_EQ(learner->purge({.calls = {RequestId{6}}}), 0U);
  EXPECT_EQ(learner->purge({.calls = {RequestId{5}}, .tenant = TenantId{9}}), 0U) << "another tenant's";
  ObservedRequest running;
  running.request = RequestId{7};
  running.route.topic = TopicId{1};
  running.tenant = TenantId{3};
  running.prompt = {1, 2, 3};
  learner->observations().begin(running);
  EXPECT_EQ(learner->purge({.tenant = TenantId{3}}), 0U);
  Observation seen;
  seen.request = running.request;
  seen.base_position = 3;
  seen.committed = {4};
  seen.targets = answered(1).target;
  seen.targets.resize(1);
  learner->observations().record(seen);
  learner->observations().finish(running.request, /*completed=*/true);
  ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  learner->stop();
  EXPECT_EQ(setup.replay.records("sql"), 5U) << "what ran when its tenant was purged is not kept either";
  EXPECT_EQ(learner->purge({.calls = {RequestId{1}}}), 1U) << "after its end too";
  EXPECT_EQ(setup.replay.records("sql"), 4U);
}

// A record was dated when the learner took it in: a purge of all that had finished passed by what still waited for it.
TEST(Learner, APurgeByTimeReachesWhatFinishedBefore) {
  LearnerSetup setup;
  auto learner = setup.make_learner(*setup.governor);
  for (std::uint64_t id = 1; id <= 6; ++id) tell(*learner, answered(id));
  const std::int64_t now_us = wall_us() + 1;
  while (wall_us() <= now_us) {
  }
  learner->start();
  EXPECT_EQ(learner->purge({.before_us = now_us}), 6U);
  tell(*learner, answered(7));
  EXPECT_EQ(learner->purge({.before_us = now_us}), 0U) << "it finished later";
  learner->stop();
  EXPECT_EQ(setup.replay.records("sql"), 1U);
}

// All choices and prompts of one call are purged by the id that its client saw.
TEST(Learner, RecordsAreKeptUnderTheirCall) {
  LearnerSetup setup;
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  for (std::uint64_t id = 1; id <= 4; ++id) {
    ReplayRecord record = answered(id);
    ObservedRequest request;
    request.request = RequestId{100 + id};
    request.call = RequestId{id <= 2 ? 101U : 103U};
    request.route.topic = TopicId{1};
    request.prompt.assign(record.tokens.begin(), record.tokens.begin() + record.prompt_tokens);
    learner->observations().begin(request);
    for (std::size_t i = 0; i < record.target.size(); ++i) {
      Observation seen;
      seen.request = request.request;
      seen.base_position = record.prompt_tokens + static_cast<std::int32_t>(i);
      seen.committed = {record.tokens[static_cast<std::size_t>(seen.base_position)]};
      seen.targets = {record.target[i]};
      learner->observations().record(seen);
    }
    learner->observations().finish(request.request, /*completed=*/true);
  }
  EXPECT_EQ(learner->purge({.calls = {RequestId{102}}}), 0U) << "no id that a client saw";
  EXPECT_EQ(learner->purge({.calls = {RequestId{101}}}), 2U);
  learner->stop();
  EXPECT_EQ(setup.replay.records("sql"), 2U);
}

TEST(Learner, SwitchedOffItKeepsNothingAndGoesOnWhenSwitchedOn) {
  LearnerSetup setup;
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  stream(*learner, 1, 16);
  learner->set_enabled(false);
  stream(*learner, 17, 48);
  EXPECT_EQ(learner->dropped(), 0U) << "as the operator wished";
  learner->set_enabled(true);
  stream(*learner, 65, 16);
  learner->stop();
  EXPECT_EQ(setup.replay.records("sql"), 32U);
  EXPECT_EQ(setup.recorded.scores().size(), 32U);
}

TEST(Learner, ALowDiskPausesItCountsWhatIsLostAndRoomLetsItGoOn) {
  LearnerSetup setup;
  std::atomic<std::uint64_t> free_bytes{50};
  setup.options.disk = std::make_shared<DiskSpace>(setup.folder.path(), 100, [&] { return free_bytes.load(); });
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  stream(*learner, 1, 16);
  EXPECT_GT(learner->dropped(), 0U);
  EXPECT_EQ(setup.recorded.scores().size(), 16U) << "the live version stays under watch";
  EXPECT_EQ(setup.recorded.figures().topics[0].optimizer_steps, 0U);
  const std::uint64_t lost = learner->dropped();
  free_bytes = 1000;
  setup.options.disk->set_least(100);
  stream(*learner, 17, 16);
  learner->stop();
  EXPECT_EQ(learner->dropped(), lost);
  EXPECT_EQ(setup.replay.records("sql"), 16U);
  EXPECT_EQ(setup.recorded.scores().size(), 32U);
}

TEST(Learner, ARecordThatTheDiskRefusesIsCountedAndTheNextIsKept) {
  LearnerSetup setup;
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  ::testing::internal::CaptureStderr();
  arm_fail_point("replay.append.write:8:enospc");
  stream(*learner, 1, 8);
  EXPECT_TRUE(learner->replay_refused());
  EXPECT_GT(learner->dropped(), 0U);
  stream(*learner, 9, 8);
  arm_fail_point("");
  EXPECT_FALSE(learner->replay_refused());
  learner->stop();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("records are kept again"), std::string::npos) << said;
  EXPECT_EQ(setup.replay.records("sql"), 15U);
}

// One step per request: a count of 80 after the restart shows that the optimizer's state was loaded.
TEST(Learner, ARestartGoesOnWhereItStopped) {
  LearnerSetup setup;
  learn_first(setup, 40);
  EXPECT_TRUE(std::filesystem::exists(setup.options.optimizer_folder / "sql.opt"));
  const auto current = setup.store.current("sql");
  ASSERT_TRUE(current.has_value());
  EXPECT_LE(current->optimizer_steps, 40U);
  setup.live_draft = std::make_shared<LiveDraft>(DraftId{1}, "sql", setup.load("sql", current->version));
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  stream(*learner, 5001, 40);
  learner->stop();
  EXPECT_EQ(setup.replay.records("sql"), 80U);
  std::ifstream lineage(setup.options.optimizer_folder / "sql.lineage");
  std::string magic, source;
  std::uint64_t version = 0, steps_before = 0, steps = 0;
  ASSERT_TRUE(lineage >> magic >> source >> version >> steps_before >> steps);
  EXPECT_EQ(steps_before, 0U);
  EXPECT_EQ(steps, 80U) << "40 of them before the restart";
}

// Regression: a crash between a publication and the save after it lost the optimizer's moments.
TEST(Learner, ACrashAfterAPublicationLosesNoOptimizerState) {
  LearnerSetup setup;
  learn_first(setup, 40);
  const auto current = setup.store.current("sql");
  ASSERT_TRUE(current.has_value());
  const auto file = setup.options.optimizer_folder / "sql.lineage";
  TrainerLineage lineage = read_lineage(file);
  ASSERT_EQ(lineage.version, current->version);
  lineage.source = current->parent_draft;  // as it was before that publication
  lineage.version = current->parent;
  write_lineage(file, lineage);
  setup.live_draft = std::make_shared<LiveDraft>(DraftId{1}, "sql", setup.load("sql", current->version));
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  stream(*learner, 5001, 40);
  learner->stop();
  EXPECT_EQ(read_lineage(file).steps, 80U) << "40 of them before the crash";
}

// Regression: all training since the last publication was lost.
TEST(Learner, ACrashLosesNoMoreTrainingThanTold) {
  LearnerSetup setup;
  setup.options.save_us = 1;
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  stream(*learner, 1, 16);
  const auto saved_by = monotonic_us() + kPatienceUs;
  const auto state = setup.options.optimizer_folder / "sql.lineage";
  while (!std::filesystem::exists(state) && monotonic_us() < saved_by) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(std::filesystem::exists(state)) << "while it runs";
  learner->stop();
}

// Regression: a disk error at the start ended learning until the service was restarted.
TEST(Learner, ADiskErrorAtTheStartIsLoggedOnceAndTriedAgain) {
  LearnerSetup setup;
  std::ofstream(setup.options.optimizer_folder) << "in the way";
  auto learner = setup.make_learner(*setup.governor);
  ::testing::internal::CaptureStderr();
  learner->start();
  for (int i = 0; i < 6000 && !learner->failing(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(learner->failing());
  EXPECT_EQ(learner->purge({.calls = {RequestId{1}}}), 0U) << "it is no obstacle to a purge";
  std::filesystem::remove(setup.options.optimizer_folder);
  stream(*learner, 1, 32);
  learner->stop();
  const std::string said = ::testing::internal::GetCapturedStderr();
  testing::expect_logged_once(said, "learning cannot begin", "cannot begin");
  EXPECT_NE(said.find("learning has begun, after failures: "), std::string::npos) << said;
  EXPECT_GT(setup.recorded.figures().topics.at(0).optimizer_steps, 0U);
}

// Regression: as long as learning could not begin, a waiting record kept the learner's thread busy all the time.
TEST(Learner, ItSleepsWhileRecordsWaitForLearningToBegin) {
  LearnerSetup setup;
  std::ofstream(setup.options.optimizer_folder) << "in the way";
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  ASSERT_TRUE(testing::eventually([&] { return learner->failing(); }));
  for (std::uint64_t id = 1; id <= 8; ++id) tell(*learner, answered(id));
  EXPECT_EQ(learner->purge({.calls = {RequestId{99}}}), 0U) << "after that, the records wait for the learner";
  const std::clock_t before = std::clock();  // CPU time of all threads
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 5);
  learner->stop();
}

// Regression: a beginning that failed for lack of memory was tried again without a pause.
TEST(Learner, ABeginningWithoutMemoryIsTriedAgainAfterAPause) {
  LearnerSetup setup;
  setup.adopt("sql", /*seed=*/2);
  setup.live_draft->set(setup.adopt("sql", /*seed=*/3, /*parent=*/1));
  std::atomic<int> attempts{0};
  setup.options.pack = [&](const ModelWeights&) -> std::shared_ptr<const DeviceImage> {
    ++attempts;  // of the beginning, which packs the predecessor
    throw std::bad_alloc();
  };
  auto learner = setup.make_learner(*setup.governor);
  for (std::uint64_t id = 1; id <= 8; ++id) tell(*learner, answered(id));
  learner->start();
  ASSERT_TRUE(testing::eventually([&] { return learner->failing(); }));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  learner->stop();
  EXPECT_GE(attempts, 1);
  EXPECT_LT(attempts, 10) << "at 0, 1, 3, 7 and 15 s, then every 30 s at most";
}

TEST(Learner, CancelledRequestsAndOtherTopicsAreNotLearnedFrom) {
  LearnerSetup setup;
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  for (std::uint64_t id = 1; id <= 20; ++id) tell(*learner, answered(id), /*completed=*/false);
  for (std::uint64_t id = 21; id <= 40; ++id) tell(*learner, answered(id), true, /*topic=*/9);
  ReplayRecord strange = answered(50);
  strange.tokens[2] = kTinyVocab;  // not in the draft's vocabulary
  tell(*learner, strange);
  ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  learner->stop();
  EXPECT_EQ(setup.replay.stats().records, 0U);
  EXPECT_TRUE(setup.recorded.scores().empty());
}

// The learner is never started, which looks to the engine like a hanging learner thread.
TEST(Learner, AStoppedConsumerNeverBlocksTheEngineAndDropsAreCounted) {
  LearnerSetup setup;
  setup.options.queue_observations = 256;
  auto learner = setup.make_learner(*setup.governor);
  const std::int64_t begin = monotonic_us();
  for (std::uint64_t id = 1; id <= 400; ++id) tell(*learner, answered(id));
  EXPECT_LT(monotonic_us() - begin, 5'000'000);
  EXPECT_GT(learner->dropped(), 400U * 20);
  learner->start();
  ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  learner->stop();
  // Each of the newest requests gives a whole record or none.
  EXPECT_GT(setup.replay.records("sql"), 0U);
  for (const ReplayRecord& record : all_records(setup.replay, "sql")) {
    EXPECT_EQ(record.tokens, answered(record.request.value).tokens);
  }
}

TEST(Learner, StopsAtOnceAndTwice) {
  LearnerSetup setup;
  auto learner = setup.make_learner(*setup.governor);
  learner->stop();
  learner = setup.make_learner(*setup.governor);
  learner->start();
  std::thread engine([&] {
    for (std::uint64_t id = 1; id <= 200; ++id) tell(*learner, answered(id));
  });
  const std::int64_t begin = monotonic_us();
  learner->stop();
  learner->stop();
  EXPECT_LT(monotonic_us() - begin, 10'000'000);
  engine.join();
}

}  // namespace
}  // namespace slip
