// SPDX-License-Identifier: Apache-2.0
#include "distill/examiner.h"

#include <gtest/gtest.h>

#include "tests/distill/tiny_draft.h"

namespace slip {
namespace {

using testing::answered;
using testing::ScratchFolder;
using testing::tiny_config;
using testing::tiny_weights;

class Silent final : public DecisionSink {
 public:
  void on_decision(const CanaryDecision& decision) noexcept override { kinds.push_back(decision.kind); }
  void on_published(const DraftMeta&) noexcept override {}
  void on_scored(const SameTextScore& score) noexcept override { scores.push_back(score); }
  void on_dropped(std::uint64_t) noexcept override {}
  std::vector<std::string> kinds;
  std::vector<SameTextScore> scores;
};

class ExaminerTest : public ::testing::Test {
 protected:
  ExaminerTest() {
    course_.topic = "sql";
    course_.slot = std::make_shared<DraftSlot>(DraftId{1}, "sql", base_);
    course_.live.version = base_;
    course_.live.name = "base";
  }

  void make_candidate(std::uint64_t cut_off) {
    Candidate candidate{.trial = Trial(options_.min_requests)};
    candidate.weights = tiny_weights(2);
    candidate.cut_off = cut_off;
    course_.candidate = std::move(candidate);
  }
  static ReplayRecord record_of(std::uint64_t sequence) {
    ReplayRecord record = answered(sequence);
    record.sequence = sequence;
    return record;
  }

  ScratchFolder folder_;
  CanaryOptions options_;
  Silent notes_;
  DraftStore store_{folder_.path() / "drafts"};
  TrainerSeat seat_{{}, folder_.path() / "optimizer"};
  std::shared_ptr<const DraftVersion> base_ =
      std::make_shared<DraftVersion>(DraftVersion{DraftId{0}, "base", 1, 0, tiny_weights(1)});
  kernels::ThreadPool pool_{1};
  DraftScorer scorer_{tiny_config(), 256, pool_};
  Publisher publisher_{{}, base_, store_, seat_, notes_};
  Examiner examiner_{options_, 3, base_, scorer_, publisher_, notes_};
  Course course_;
};

TEST_F(ExaminerTest, EveryRecordIsScoredByLiveAndBase) {
  examiner_.examine_new(course_, record_of(1));
  ASSERT_EQ(notes_.scores.size(), 1U);
  EXPECT_EQ(notes_.scores[0].request, RequestId{1});
  EXPECT_EQ(notes_.scores[0].live.tokens, 24);
  EXPECT_EQ(notes_.scores[0].live.accepted, notes_.scores[0].base.accepted);
}

// What training may have drawn must not speak for the candidate.
TEST_F(ExaminerTest, NegativeRecordsUpToTheCutOffDoNotCount) {
  make_candidate(/*cut_off=*/10);
  for (std::uint64_t sequence = 8; sequence <= 12; ++sequence) examiner_.examine_new(course_, record_of(sequence));
  EXPECT_EQ(course_.candidate->trial.pairs.size(), 2U);
  EXPECT_EQ(notes_.scores.size(), 5U);
}

TEST_F(ExaminerTest, HeldOutRecordsCostOneLook) {
  make_candidate(/*cut_off=*/100);
  for (std::uint64_t sequence = 1; sequence <= 20; ++sequence) {
    course_.candidate->heldout_left.push_back(record_of(sequence));
  }
  for (int i = 0; i < 19; ++i) EXPECT_TRUE(examiner_.examine_heldout(course_));
  EXPECT_TRUE(notes_.kinds.empty());
  EXPECT_TRUE(examiner_.examine_heldout(course_));
  EXPECT_EQ(notes_.kinds.size(), 1U);
  EXPECT_FALSE(examiner_.examine_heldout(course_));
}

TEST_F(ExaminerTest, TheWatchEndsAfterItsRequests) {
  DraftSource previous;
  previous.version = base_;
  course_.watch = Watch{previous, Trial(options_.min_requests)};
  for (std::uint64_t sequence = 1; sequence < options_.rollback_requests; ++sequence) {
    examiner_.examine_new(course_, record_of(sequence));
  }
  EXPECT_TRUE(course_.watch.has_value());
  examiner_.examine_new(course_, record_of(99));
  EXPECT_FALSE(course_.watch.has_value());
  EXPECT_TRUE(notes_.kinds.empty());
}

TEST_F(ExaminerTest, ConcludingAnUndecidedCandidateRefusesItWithItsFigures) {
  make_candidate(0);
  examiner_.examine_new(course_, record_of(1));
  examiner_.conclude(course_);
  EXPECT_FALSE(course_.candidate.has_value());
  EXPECT_EQ(notes_.kinds, (std::vector<std::string>{"refuse"}));
}

}  // namespace
}  // namespace slip
