// SPDX-License-Identifier: Apache-2.0
#include "distill/publisher.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "common/fail_point.h"
#include "tests/distill/learner_fixture.h"

namespace slip {
namespace {

using testing::LearnerSetup;
using testing::tiny_config;

// A request of 20 tested tokens, for which the candidate takes `saved` steps less than the live draft.
PairedScore pair_that_saves(double saved) {
  PairedScore pair;
  pair.live.accepted = pair.live.first_rejections = 10;
  pair.live.steps = 11;
  pair.live.tokens = 21;
  pair.candidate = pair.live;
  pair.candidate.steps -= saved;
  return pair;
}

// The publisher of the setup's only topic.
class PublisherTest : public ::testing::Test {
 protected:
  PublisherTest() {
    topic_.topic = "sql";
    topic_.live_draft = setup_.live_draft;
  }

  // Puts random weights into the store as the topic's next version.
  DraftMeta store_version(const std::string& parent_draft, std::uint64_t parent,
                          const ModelConfig& shape = tiny_config(), std::uint64_t optimizer_steps = 0) {
    const auto staged = setup_.store.staging_folder("sql");
    DraftTrainer(shape, 77, {}).export_draft(staged);
    DraftMeta meta;
    meta.draft = "sql";
    meta.parent = parent;
    meta.parent_draft = parent_draft;
    meta.reason = "canary";
    meta.optimizer_steps = optimizer_steps;
    return setup_.store.publish(staged, meta);
  }
  // As a service starts with that version.
  void enrol_serving(const DraftMeta& meta) {
    setup_.live_draft->set(setup_.load("sql", meta.version));
    publisher_.enrol(topic_);
  }
  void make_candidate() {
    Candidate& candidate = topic_.candidate.emplace();
    candidate.exported = std::make_shared<const DraftExport>(DraftTrainer(tiny_config(), 5, {}).exported());
    candidate.weights = candidate.exported->weights(Dtype::kFloat32);
    candidate.optimizer_steps = 8;
  }

  LearnerSetup setup_;
  ResidentTrainers trainers_{{.folder = setup_.options.optimizer_folder}};
  Publisher publisher_{
      {.serve_dtype = Dtype::kFloat32, .margin = 0.1}, setup_.base, setup_.store, trainers_, setup_.recorded};
  TopicState topic_;
};

// Regression: the test of candidates had a margin of 0, whatever canary.margin was. So nothing spoke against a
// candidate that was no better, and it was never refused.
TEST_F(PublisherTest, CandidatesAreTestedAgainstTheConfiguredMargin) {
  publisher_.enrol(topic_);
  for (int i = 0; i < 20; ++i) topic_.candidate_test.add(pair_that_saves(0));
  EXPECT_GT(topic_.candidate_test.log_evidence_below_margin(), 1);
}

// Regression: an export went on for 40 ms with the core of a busy engine, whatever the governor said.
TEST_F(PublisherTest, AnExportIsAbandonedWithoutLeave) {
  publisher_.enrol(topic_);
  DraftTrainer& trainer = trainers_.take("sql", topic_.live);
  for (int allowed = 0; allowed < 3; ++allowed) {
    int asked = 0;
    Publisher publisher({.serve_dtype = Dtype::kFloat32, .go_on = [&] { return ++asked <= allowed; }}, setup_.base,
                        setup_.store, trainers_, setup_.recorded);
    EXPECT_EQ(publisher.export_candidate(topic_, trainer, /*cut_off=*/1), allowed == 2);
    EXPECT_EQ(topic_.candidate.has_value(), allowed == 2);
  }
  EXPECT_TRUE(setup_.recorded.decisions().empty()) << "it is no refusal";
}

// Regression: an abandoned export threw away the candidate that was under test.
TEST_F(PublisherTest, AnAbandonedExportLeavesTheCandidateUnderTest) {
  publisher_.enrol(topic_);
  DraftTrainer& trainer = trainers_.take("sql", topic_.live);
  make_candidate();
  const auto tested = topic_.candidate->weights;
  topic_.candidate_test.add(pair_that_saves(6));
  for (int allowed = 0; allowed < 3; ++allowed) {
    int asked = 0;
    Publisher publisher({.serve_dtype = Dtype::kFloat32, .go_on = [&] { return ++asked <= allowed; }}, setup_.base,
                        setup_.store, trainers_, setup_.recorded);
    EXPECT_EQ(publisher.export_candidate(topic_, trainer, /*cut_off=*/1), allowed == 2);
    ASSERT_TRUE(topic_.candidate.has_value());
    EXPECT_EQ(topic_.candidate->weights == tested, allowed < 2);
    EXPECT_EQ(topic_.candidate_test.own_size(), allowed < 2 ? 1U : 0U);
  }
}

// Regression: the topic's own version with the base draft's number was taken for the parent, so a rollback could make a
// bad version live again.
TEST_F(PublisherTest, TheParentOfALaterVersionMayBeTheBaseDraft) {
  const std::uint64_t base = setup_.base->number;
  ASSERT_EQ(store_version("base", base).version, base) << "the topic has a version of that number too";
  enrol_serving(store_version("base", base));
  ASSERT_TRUE(topic_.previous.has_value());
  EXPECT_EQ(topic_.previous->name, "base");
  EXPECT_EQ(topic_.previous->version->weights, setup_.base->weights);
}

TEST_F(PublisherTest, TheParentOfALaterVersionIsMostlyTheOneBefore) {
  const DraftMeta first = store_version("base", setup_.base->number);
  enrol_serving(store_version("sql", first.version));
  ASSERT_TRUE(topic_.previous.has_value());
  EXPECT_EQ(topic_.previous->name, "sql");
  EXPECT_EQ(topic_.previous->number, first.version);
}

// Regression: it had none, so a trainer that started from it after a rollback counted from 0.
TEST_F(PublisherTest, APredecessorHasTheStepsOfItsOwnMeta) {
  const DraftMeta first = store_version("base", setup_.base->number, tiny_config(), /*optimizer_steps=*/40);
  enrol_serving(store_version("sql", first.version, tiny_config(), /*optimizer_steps=*/60));
  ASSERT_TRUE(topic_.previous.has_value());
  EXPECT_EQ(topic_.previous->optimizer_steps, 40U);
  EXPECT_EQ(topic_.live.optimizer_steps, 60U);
}

// Regression: a predecessor of another shape was loaded, and the first request that was scored by it ended the process.
TEST_F(PublisherTest, APredecessorOfAnotherShapeIsLeftAside) {
  ModelConfig deeper = tiny_config();
  deeper.n_layers += 1;
  const DraftMeta first = store_version("base", setup_.base->number, deeper);
  enrol_serving(store_version("sql", first.version));
  EXPECT_FALSE(topic_.previous.has_value());
}

// Regression: a file that could not be deleted, as on a read-only disk, ended the rollback before it took effect.
TEST_F(PublisherTest, AHarmfulVersionIsRolledBackAlthoughItsOptimizerStateStays) {
  const DraftMeta first = store_version("base", setup_.base->number);
  enrol_serving(store_version("sql", first.version));
  std::filesystem::create_directories(setup_.options.optimizer_folder / "sql.opt" / "not empty");
  CanaryVerdict worse;
  worse.harmful = true;
  publisher_.roll_back(topic_, worse, /*to_base=*/false);
  EXPECT_EQ(setup_.live_draft->get()->number, first.version);
  EXPECT_EQ(setup_.store.current("sql")->version, first.version);
}

// Regression: the rollback looked for the base draft's folder first, and a disk that could not read it ended it.
TEST_F(PublisherTest, TheBaseDraftIsServedAgainAlthoughItsFilesCannotBeRead) {
  enrol_serving(store_version("base", setup_.base->number));
  const auto folder = setup_.store.folder("base", setup_.base->number);
  std::filesystem::remove_all(folder);
  std::filesystem::create_symlink(folder.filename(), folder);  // to itself
  publisher_.roll_back(topic_, CanaryVerdict(), /*to_base=*/true);
  EXPECT_EQ(setup_.live_draft->get()->weights, setup_.base->weights);
}

// Copies a folder as a rollback leaves it when the store has changed: what a crash there leaves.
class CopyAtRollback final : public DecisionSink {
 public:
  CopyAtRollback(std::filesystem::path folder, std::filesystem::path copy)
      : folder_(std::move(folder)), copy_(std::move(copy)) {}
  void on_decision(const CanaryDecision& decision) noexcept override {
    if (decision.kind == "rollback") std::filesystem::copy(folder_, copy_);
  }
  void on_published(const DraftMeta& /*meta*/) noexcept override {}
  void on_scored(const SameTextScore& /*score*/) noexcept override {}
  void on_learning(const LearningFigures& /*figures*/) noexcept override {}
  void on_dropped(std::uint64_t /*observations*/) noexcept override {}

 private:
  std::filesystem::path folder_, copy_;
};

// Regression: a crash between a rollback's two changes, or a disk that refused the first one, cost the optimizer state
// of a trainer that was to go on.
TEST_F(PublisherTest, ATrainerGoesOnAfterARollbackThatACrashCutsShort) {
  for (const bool to_base : {false, true}) {
    for (const bool refused : {false, true}) {
      const std::uint64_t base = setup_.base->number;
      const DraftMeta first = store_version("base", base);
      enrol_serving(to_base ? first : store_version("sql", first.version, tiny_config(), /*optimizer_steps=*/60));
      const ReplayRecord record = testing::answered(1);
      trainers_.take("sql", topic_.live).step(std::span(&record, 1));
      trainers_.save("sql");
      const auto copy = setup_.folder.path() / "copy";
      CopyAtRollback decisions(setup_.options.optimizer_folder, copy);
      Publisher publisher({.serve_dtype = Dtype::kFloat32}, setup_.base, setup_.store, trainers_, decisions);
      if (refused) arm_fail_point(to_base ? "publish.meta.write:1:enospc" : "rollback.current.write:1:enospc");
      publisher.roll_back(topic_, CanaryVerdict(), to_base);
      arm_fail_point("");

      enrol_serving(*setup_.store.current("sql"));
      for (const auto& folder : {copy, setup_.options.optimizer_folder}) {
        ResidentTrainers restarted({.folder = folder});
        EXPECT_EQ(restarted.take("sql", topic_.live).steps(), 1) << folder << to_base << refused;
      }
      trainers_.forget("sql");
      std::filesystem::remove_all(copy);
    }
  }
}

// Regression: the base draft got the state before its weights were copied, and a crash during the copy cost the state:
// the live version takes up no state of a version that is not its parent.
TEST_F(PublisherTest, AVersionKeepsTheStateUntilTheBaseDraftHasReplacedIt) {
  const DraftMeta first = store_version("base", setup_.base->number);
  enrol_serving(store_version("sql", first.version));
  const DraftSource bad = topic_.live;
  const ReplayRecord record = testing::answered(1);
  trainers_.take("sql", bad).step(std::span(&record, 1));
  trainers_.save("sql");
  const auto copy = setup_.folder.path() / "copy";
  CopyAtRollback decisions(setup_.options.optimizer_folder, copy);
  Publisher publisher({.serve_dtype = Dtype::kFloat32}, setup_.base, setup_.store, trainers_, decisions);
  publisher.roll_back(topic_, CanaryVerdict(), /*to_base=*/true);
  EXPECT_EQ(ResidentTrainers({.folder = copy}).take("sql", bad).steps(), 1);
  EXPECT_EQ(ResidentTrainers({.folder = setup_.options.optimizer_folder}).take("sql", topic_.live).steps(), 1);
}

// Regression: the copies of the base draft's files stayed in the store until a restart, and so filled a full disk.
TEST_F(PublisherTest, ARollbackThatTheDiskRefusesLeavesNoFiles) {
  enrol_serving(store_version("base", setup_.base->number));
  arm_fail_point("publish.meta.write:1:enospc");
  publisher_.roll_back(topic_, CanaryVerdict(), /*to_base=*/true);
  arm_fail_point("");
  EXPECT_EQ(setup_.live_draft->get()->weights, setup_.base->weights);
  EXPECT_EQ(setup_.store.current("sql")->version, 1U) << "the disk refused the change";
  for (const auto& entry : std::filesystem::directory_iterator(setup_.store.root())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".staging-")) << entry.path();
  }
}

// Regression: the next export had the evidence of the one that the disk refused as its own, and was published unscored.
TEST_F(PublisherTest, AnExportAfterOneThatWasNotPublishedNeedsEvidenceOfItsOwn) {
  const PackDraft refuses = [](const ModelWeights&) -> std::shared_ptr<const DeviceImage> {
    throw Error(ErrorCode::kTooLarge, "the device has no room");
  };
  Publisher publisher({.serve_dtype = Dtype::kFloat32, .pack = refuses}, setup_.base, setup_.store, trainers_,
                      setup_.recorded);
  publisher.enrol(topic_);
  make_candidate();
  for (int i = 0; i < 4; ++i) topic_.candidate_test.add(pair_that_saves(6));
  publisher.publish(topic_, CanaryVerdict());
  EXPECT_FALSE(topic_.candidate.has_value());
  EXPECT_EQ(topic_.candidate_test.own_size(), 0U);
  EXPECT_EQ(topic_.candidate_test.size(), 4U) << "what speaks for its trainer is kept";
}

// Regression: each publication wrote the whole optimizer state, gigabytes for a large draft.
TEST_F(PublisherTest, APublicationLeavesTheOptimizerStateToALaterSave) {
  publisher_.enrol(topic_);
  trainers_.take("sql", topic_.live);
  make_candidate();
  publisher_.publish(topic_, CanaryVerdict());
  const auto state = setup_.options.optimizer_folder / "sql.opt";
  EXPECT_FALSE(std::filesystem::exists(state));
  trainers_.save("sql");
  EXPECT_TRUE(std::filesystem::exists(state));
}

// Regression: the error reached the learning loop after the version was live, and cost the topic its trainer.
TEST_F(PublisherTest, APublicationSucceedsAlthoughNoOldVersionCanBeDeleted) {
  for (int i = 0; i < 9; ++i) {  // one more than the policy keeps whatever their age
    DraftMeta old = store_version("base", setup_.base->number);
    old.created_us = 1;
    std::ofstream(setup_.store.folder("sql", old.version) / "meta.json") << to_json(old);
  }
  publisher_.enrol(topic_);
  make_candidate();
  arm_fail_point("retire.meta.write:1:enospc");
  publisher_.publish(topic_, CanaryVerdict());
  arm_fail_point("");
  EXPECT_EQ(setup_.live_draft->get()->number, 10U);
  EXPECT_EQ(setup_.store.current("sql")->version, 10U);
  EXPECT_FALSE(setup_.store.versions("sql").front().weights_retired) << "the disk refused it";
}

}  // namespace
}  // namespace slip
