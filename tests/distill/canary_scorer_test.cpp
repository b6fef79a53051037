// SPDX-License-Identifier: Apache-2.0
#include "distill/canary_scorer.h"

#include <gtest/gtest.h>

#include "distill/replay/replay_buffer.h"
#include "tests/distill/tiny_draft.h"

namespace slip {
namespace {

using testing::answered;
using testing::broken_weights;
using testing::TemporaryFolder;
using testing::tiny_config;
using testing::tiny_weights;

class Notes final : public DecisionSink {
 public:
  void on_decision(const CanaryDecision& decision) noexcept override {
    kinds.push_back(decision.kind);
    reasons.push_back(decision.verdict.reason);
  }
  void on_published(const DraftMeta&) noexcept override {}
  void on_scored(const SameTextScore& score) noexcept override { scores.push_back(score); }
  void on_dropped(std::uint64_t) noexcept override {}
  std::vector<std::string> kinds, reasons;
  std::vector<SameTextScore> scores;
};

// A draft trained on the tiny target.
std::shared_ptr<const ModelWeights> good_weights() {
  const TemporaryFolder folder;
  std::vector<ReplayRecord> lessons;
  for (std::uint64_t id = 500; id < 508; ++id) lessons.push_back(answered(id));
  DraftTrainer trainer(tiny_config(), 3, {.learning_rate = 5e-3});
  for (int i = 0; i < 120; ++i) trainer.step(lessons);
  trainer.export_draft(folder.path());
  return ModelWeights::load(folder.path(), Dtype::kFloat32, true);
}

class CanaryScorerTest : public ::testing::Test {
 protected:
  CanaryScorerTest() {
    topic_.topic = "sql";
    topic_.live_draft = std::make_shared<LiveDraft>(DraftId{1}, "sql", base_);
    topic_.live.version = base_;
    topic_.live.name = "base";
  }

  void make_candidate(std::uint64_t cut_off, std::shared_ptr<const ModelWeights> weights) {
    topic_.candidate.emplace();
    topic_.candidate->weights = std::move(weights);
    topic_.candidate->cut_off = cut_off;
  }
  void serve(std::shared_ptr<const ModelWeights> weights) {
    DraftVersion version{DraftId{1}, "sql", 2, 1, std::move(weights)};
    topic_.live.version = std::make_shared<DraftVersion>(version);
    topic_.live_draft->set(topic_.live.version);
  }
  static WaitingRecord waiting(std::uint64_t sequence, bool is_evidence = true) {
    WaitingRecord one{answered(sequence), is_evidence};
    one.record.sequence = sequence;
    return one;
  }
  ReplayOptions replay_options() const {
    ReplayOptions options;
    options.folder = folder_.path() / "replay";
    options.heldout_share = 0.5;
    return options;
  }

  TemporaryFolder folder_;
  Notes notes_;
  DraftStore store_{folder_.path() / "drafts"};
  ReplayBuffer replay_{replay_options()};
  ResidentTrainers trainers_{{.folder = folder_.path() / "optimizer"}};
  std::shared_ptr<const DraftVersion> base_ =
      std::make_shared<DraftVersion>(DraftVersion{DraftId{0}, "base", 1, 0, tiny_weights(1)});
  kernels::ThreadPool pool_{1};
  DraftScorer scorer_{tiny_config(), 256, pool_};
  Publisher publisher_{{}, base_, store_, trainers_, notes_};
  CanaryScorer canary_{{}, 3, base_, scorer_, replay_, publisher_, notes_};
  TopicState topic_;
};

TEST_F(CanaryScorerTest, EveryRecordIsScoredByLiveAndBase) {
  canary_.score_new(topic_, waiting(1));
  ASSERT_EQ(notes_.scores.size(), 1U);
  EXPECT_EQ(notes_.scores[0].request, RequestId{1});
  EXPECT_EQ(notes_.scores[0].live.tokens, 24);
  EXPECT_EQ(notes_.scores[0].live.accepted, notes_.scores[0].base.accepted);
}

// A short answer that happens to be accepted completely must not dominate the topic's rate.
TEST_F(CanaryScorerTest, RecentAcceptanceIsOfSumsNotOfRatios) {
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) canary_.score_new(topic_, waiting(sequence));
  double accepted = 0, tested = 0;
  for (const SameTextScore& score : notes_.scores) {
    accepted = 0.95 * accepted + score.live.accepted;
    tested = 0.95 * tested + score.live.accepted + score.live.first_rejections;
  }
  ASSERT_GT(tested, 0);
  EXPECT_NEAR(topic_.figures.alpha_live, accepted / tested, 1e-12);
}

// Records that training may have drawn are no evidence for the candidate.
TEST_F(CanaryScorerTest, NegativeRecordsUpToTheCutOffDoNotCount) {
  make_candidate(/*cut_off=*/10, tiny_weights(2));
  for (std::uint64_t sequence = 8; sequence <= 12; ++sequence) canary_.score_new(topic_, waiting(sequence));
  EXPECT_EQ(topic_.candidate_test.size(), 2U);
  EXPECT_EQ(notes_.scores.size(), 5U);
}

// Regression: the same prompt sent 13 times led to a publication with p = 0.
TEST_F(CanaryScorerTest, NegativeCopiesAreNoEvidence) {
  make_candidate(/*cut_off=*/0, good_weights());
  for (std::uint64_t sequence = 1; sequence <= 40; ++sequence) canary_.score_new(topic_, waiting(sequence, false));
  EXPECT_EQ(topic_.candidate_test.size(), 0U);
  EXPECT_TRUE(notes_.kinds.empty());
  EXPECT_EQ(notes_.scores.size(), 40U) << "people still see how the live draft does";
}

TEST_F(CanaryScorerTest, ABetterCandidateAsksTheHeldOutTextBeforeItIsPublished) {
  for (std::uint64_t id = 600; id < 640; ++id) {
    ReplayRecord record = answered(id);
    record.group = id;
    replay_.append(record);
  }
  make_candidate(/*cut_off=*/0, good_weights());
  std::uint64_t sequence = 0;
  while (topic_.candidate->heldout_left.empty() && sequence < 60) canary_.score_new(topic_, waiting(++sequence));
  ASSERT_FALSE(topic_.candidate->heldout_left.empty());
  EXPECT_TRUE(notes_.kinds.empty());
}

// A candidate that is bad on held-out text is not published, whatever its score on new text.
TEST_F(CanaryScorerTest, NegativeTheHeldOutTextCanObject) {
  make_candidate(/*cut_off=*/0, good_weights());
  serve(tiny_weights(9));
  topic_.candidate->heldout = PairedScore{{.accepted = 1, .first_rejections = 40, .steps = 60, .tokens = 61},
                                          {.accepted = 30, .first_rejections = 20, .steps = 31, .tokens = 61}};
  for (std::uint64_t sequence = 1; sequence <= 60 && topic_.candidate; ++sequence) {
    canary_.score_new(topic_, waiting(sequence));
  }
  ASSERT_FALSE(notes_.kinds.empty());
  EXPECT_EQ(notes_.kinds.front(), "refuse");
  EXPECT_GE(topic_.candidate_test.begun(), 2U) << "the next candidate needs higher odds";
}

// Regression: after 24 scored requests the live version was not evaluated any more.
TEST_F(CanaryScorerTest, ALiveVersionIsWatchedForAsLongAsItServes) {
  const auto good = good_weights();
  serve(good);
  for (std::uint64_t sequence = 1; sequence <= 100; ++sequence) canary_.score_new(topic_, waiting(sequence));
  EXPECT_TRUE(notes_.kinds.empty());
  EXPECT_EQ(topic_.against_base.size(), 100U);
}

// Regression: a version that computes no number failed every score, and stayed live.
TEST_F(CanaryScorerTest, ALiveVersionWithoutNumbersIsRolledBack) {
  const auto predecessor = std::make_shared<DraftVersion>(DraftVersion{DraftId{1}, "sql", 1, 1, good_weights()});
  for (const bool has_predecessor : {true, false}) {
    notes_.kinds.clear();
    serve(broken_weights());
    topic_.previous.reset();
    if (has_predecessor) topic_.previous = DraftSource{predecessor, "base", 1, folder_.path(), 0};
    make_candidate(/*cut_off=*/0, tiny_weights(2));
    canary_.score_new(topic_, waiting(1, /*is_evidence=*/false));
    EXPECT_EQ(notes_.kinds, std::vector<std::string>{"rollback"});
    EXPECT_EQ(notes_.reasons.back(), "the model computed a logit that is not a number") << "and not how it compares";
    EXPECT_EQ(topic_.live_draft->get()->weights, has_predecessor ? predecessor->weights : base_->weights);
    EXPECT_FALSE(topic_.candidate.has_value()) << "it descends from that version";
  }
}

TEST_F(CanaryScorerTest, ACandidateWithoutNumbersIsRefused) {
  make_candidate(/*cut_off=*/0, broken_weights());
  canary_.score_new(topic_, waiting(1));
  EXPECT_EQ(notes_.kinds, std::vector<std::string>{"refuse"});
  EXPECT_FALSE(topic_.candidate.has_value());

  make_candidate(/*cut_off=*/0, broken_weights());
  topic_.candidate->heldout.emplace();
  topic_.candidate->heldout_left.push_back(answered(2));
  EXPECT_TRUE(canary_.score_heldout(topic_));
  EXPECT_EQ(notes_.kinds, (std::vector<std::string>{"refuse", "refuse"}));
  EXPECT_FALSE(topic_.candidate.has_value());
}

TEST_F(CanaryScorerTest, APredecessorWithoutNumbersIsNoLongerCompared) {
  serve(good_weights());
  DraftVersion version{DraftId{1}, "sql", 1, 1, broken_weights()};
  topic_.previous = DraftSource{std::make_shared<DraftVersion>(version), "sql", 1, folder_.path(), 0};
  for (std::uint64_t sequence = 1; sequence <= 4; ++sequence) canary_.score_new(topic_, waiting(sequence));
  EXPECT_TRUE(notes_.kinds.empty());
  EXPECT_FALSE(topic_.previous.has_value());
  EXPECT_EQ(topic_.against_base.size(), 3U) << "all records but the first";
}

TEST_F(CanaryScorerTest, NegativeNothingReplacesABaseDraftWithoutNumbers) {
  const auto broken = std::make_shared<DraftVersion>(DraftVersion{DraftId{0}, "base", 1, 0, broken_weights()});
  CanaryScorer canary({}, 3, broken, scorer_, replay_, publisher_, notes_);
  serve(broken->weights);
  EXPECT_THROW(canary.score_new(topic_, waiting(1)), Error);
  EXPECT_TRUE(notes_.kinds.empty());
}

}  // namespace
}  // namespace slip
