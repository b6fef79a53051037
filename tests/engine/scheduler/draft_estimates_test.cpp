// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/draft_estimates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "tests/engine/tiny_draft.h"

namespace slip {
namespace {

class DraftEstimatesTest : public ::testing::Test {
 protected:
  DraftEstimatesTest() {
    sequence_.sampling = &sampling_;
    sequence_.live_draft = live_draft_.get();
    sequence_.wants_probability = true;
  }

  // A chain of `n` tokens to each of which the draft gave a probability of .65.
  static Proposal chain(int n) {
    Proposal proposal;
    for (int i = 0; i < n; ++i) proposal.add_to_chain(i, std::log(0.65));
    proposal.version = 1;
    return proposal;
  }
  DraftOutlook outlook(std::int32_t most = 8, std::int32_t ready_depth = 8) {
    return estimates_.outlook(sequence_, guesses_, most, ready_depth);
  }

  SamplingParams sampling_{.temperature = 0, .seed = 1};
  std::shared_ptr<LiveDraft> live_draft_ =
      testing::make_live_draft(testing::tiny_draft(testing::tiny_draft_config(23), 1));
  SequenceRef sequence_;
  Guesses guesses_;
  DraftEstimates estimates_;
};

TEST_F(DraftEstimatesTest, VerificationsTellTheFirstTokensRateAndThatOfLaterOnes) {
  const std::vector<std::int32_t> path{0, 1};
  for (int i = 0; i < 200; ++i) {
    estimates_.add_verification(sequence_, chain(4), path, /*rejected=*/true);
    estimates_.add_verification(sequence_, chain(4), {}, /*rejected=*/true);
  }
  EXPECT_NEAR(outlook().alpha, 0.5, 0.03) << "one of two";
  EXPECT_NEAR(outlook().deeper(), 0.5, 0.03) << "the second, not the third";
  EXPECT_NEAR(outlook().rates->rate(std::log(0.65), 0), 0.5, 0.05) << "two of four that were reached";
}

// α is that of first choices: with a sibling that is accepted, the first choice was wrong.
TEST_F(DraftEstimatesTest, AnAcceptedSiblingIsNoAcceptedFirstChoice) {
  Proposal tree = chain(1);
  tree.add_sibling(/*of=*/0, 7);
  const std::vector<std::int32_t> path{1};
  for (int i = 0; i < 200; ++i) estimates_.add_verification(sequence_, tree, path, /*rejected=*/false);
  EXPECT_LT(outlook().alpha, 0.05);
  EXPECT_LT(outlook().rates->rate(std::log(0.65), 0), 0.1);
  EXPECT_GT(outlook().rates->rate(std::log(0.65), 1), 0.9);
}

// Static trees need no probabilities, so these are not computed for them.
TEST_F(DraftEstimatesTest, TheRatesOfRanksNeedNoProbabilities) {
  sequence_.wants_probability = false;
  Proposal tree = chain(2);
  tree.add_sibling(/*of=*/0, 7);
  const std::vector<std::int32_t> path{2};
  for (int i = 0; i < 200; ++i) estimates_.add_verification(sequence_, tree, path, /*rejected=*/false);
  EXPECT_LT(outlook().rank_rates[0], 0.05);
  EXPECT_GT(outlook().rank_rates[1], 0.95);
  EXPECT_EQ(outlook().rank_rates[2], kPriorRankRates[2]) << "never proposed";
  EXPECT_EQ(outlook().rates->rate(std::log(0.65), 1), ChoiceRates().rate(std::log(0.65), 1));
  sampling_.temperature = 1;
  EXPECT_EQ(outlook().rank_rates, kPriorRankRates) << "sampled siblings are others";
}

TEST_F(DraftEstimatesTest, AnotherDraftIsNotMeantAndAnotherVersionIsNearlyUnknown) {
  for (int i = 0; i < 200; ++i) estimates_.add_verification(sequence_, chain(1), {}, /*rejected=*/true);
  EXPECT_LT(outlook().alpha, 0.05);
  LiveDraft other(DraftId{1}, "other", live_draft_->get());
  live_draft_->set(testing::draft_version(live_draft_->get()->weights, 2));
  EXPECT_GT(outlook().alpha, 0.2);
  sequence_.live_draft = &other;
  EXPECT_EQ(outlook().alpha, 0.5) << "the prior";
}

TEST_F(DraftEstimatesTest, GuessRatesDependOnResultsAndConfidence) {
  const std::vector<std::int32_t> tokens{1, 2, 3}, right{1, 2, 3, 4}, wrong{9};
  guesses_ = {tokens, /*confidence=*/2};
  for (int i = 0; i < 200; ++i) estimates_.add_guesses(sequence_, guesses_, right);
  guesses_.confidence = 1;
  for (int i = 0; i < 200; ++i) estimates_.add_guesses(sequence_, guesses_, wrong);
  EXPECT_LT(outlook().guesses.alpha, 0.05);
  guesses_.confidence = 2;
  EXPECT_GT(outlook().guesses.alpha, 0.95);
  EXPECT_EQ(outlook().guesses.most, 3);
  EXPECT_EQ(outlook(2).guesses.most, 2);
  EXPECT_EQ(outlook(8, /*ready_depth=*/0).most, 0);
  EXPECT_EQ(outlook().alpha, 0.5) << "the draft's own rate is another";
}

TEST_F(DraftEstimatesTest, StepsUnderALeaseHaveACurveOfTheirOwn) {
  for (int i = 0; i < 40; ++i) {
    estimates_.add_step({.rows = 4, .verify_us = 1'000, .draft_passes = 2, .draft_us = 100});
  }
  ASSERT_TRUE(estimates_.knows_times());
  EXPECT_NEAR(estimates_.curve(/*leased=*/true).pass_us(4), 1'000, 20) << "until leased steps are known";
  for (int i = 0; i < 40; ++i) {
    estimates_.add_step({.rows = 4, .verify_us = 3'000, .draft_passes = 2, .draft_us = 300, .leased = true});
  }
  EXPECT_NEAR(estimates_.curve(/*leased=*/true).pass_us(4), 3'000, 60);
  EXPECT_NEAR(estimates_.curve().pass_us(4), 1'000, 20);
  EXPECT_NEAR(estimates_.curve().drafting.us(2), 100, 5);
  const DraftEstimates after(estimates_.step_curves());
  ASSERT_TRUE(after.knows_times()) << "before any step";
  EXPECT_NEAR(after.curve().pass_us(4), 1'000, 20);
  EXPECT_NEAR(after.curve(/*leased=*/true).pass_us(4), 3'000, 60);
}

// A prompt's rows take other times than rows that decode.
TEST_F(DraftEstimatesTest, AStepWithAPromptChangesNoMeasuredTime) {
  for (int i = 0; i < 40; ++i) estimates_.add_step({.rows = 4, .verify_us = 1'000});
  for (int i = 0; i < 40; ++i) estimates_.add_step({.rows = 4, .prompt_rows = 200, .verify_us = 90'000});
  EXPECT_NEAR(estimates_.curve().pass_us(4), 1'000, 20);
  EXPECT_GE(estimates_.curve().pass_us(100), 100 * 90'000 / 204.0 * 0.99) << "but a row takes that at least";
}

TEST_F(DraftEstimatesTest, ADraftThatSavesNothingIsNotWorthReading) {
  EXPECT_TRUE(estimates_.is_worth_reading(sequence_)) << "nothing is known";
  for (int i = 0; i < 300; ++i) estimates_.add_reading(sequence_, /*saved_us=*/1, /*read_us=*/10);
  EXPECT_FALSE(estimates_.is_worth_reading(sequence_));
  live_draft_->set(testing::draft_version(live_draft_->get()->weights, 2));
  EXPECT_TRUE(estimates_.is_worth_reading(sequence_)) << "a new version";
}

}  // namespace
}  // namespace slip
