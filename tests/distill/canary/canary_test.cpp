// SPDX-License-Identifier: Apache-2.0
#include "distill/canary/canary.h"

#include <gtest/gtest.h>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "engine/sampling/random.h"

namespace slip {
namespace {

AcceptanceScore score_of(double accepted, double first_rejections) {
  AcceptanceScore score;
  score.accepted = accepted;
  score.first_rejections = first_rejections;
  score.steps = first_rejections + 1;
  score.tokens = accepted + first_rejections + 1;
  return score;
}

// The smooth counts see `smooth` saved steps.
PairedScore pair_that_saves(double steps, double smooth) {
  PairedScore pair{score_of(40 + steps, 40 - steps), score_of(40, 40)};
  pair.live.smooth_steps = 41;
  pair.candidate.smooth_steps = 41 - smooth;
  return pair;
}

// The smooth counts know nothing: their gain is the margin.
PairedScore pair_that_saves(double steps) {
  return pair_that_saves(steps, 80 * CanaryOptions{}.margin);
}

PairedTest test_of(std::size_t n, double steps, double margin = CanaryOptions{}.margin,
                   std::optional<double> smooth = std::nullopt) {
  PairedTest test(margin);
  for (std::size_t i = 0; i < n; ++i) test.add(pair_that_saves(steps, smooth.value_or(80 * margin)));
  return test;
}

TEST(Canary, ExportsOfAYoungTrainerAreCloseTogether) {
  EXPECT_EQ(steps_between_exports(5, 0), 5U);
  EXPECT_EQ(steps_between_exports(5, 60), 6U);
  EXPECT_EQ(steps_between_exports(5, 150), 15U);
  EXPECT_EQ(steps_between_exports(5, 100'000), 20U);
}

TEST(Canary, EvidenceThatBeganAnewNeedsHigherOdds) {
  const CanaryOptions options;
  EXPECT_EQ(required_odds(options, 1), 5);
  EXPECT_EQ(required_odds(options, 2), 15);
  EXPECT_EQ(required_odds(options, 10'000), 800);
  // Sixteen requests of one saved step are odds of 29: enough at first, too little after five exports that lost.
  EXPECT_EQ(evaluate_candidate(options, test_of(16, 1)).outcome, CanaryOutcome::kPublish);
  PairedTest sixth(options.margin);
  for (int i = 0; i < 5; ++i) {
    sixth.add(pair_that_saves(-1));
    sixth.begin_successor();
  }
  for (int i = 0; i < 16; ++i) sixth.add(pair_that_saves(1));
  EXPECT_EQ(evaluate_candidate(options, sixth).outcome, CanaryOutcome::kUndecided);
}

TEST(Canary, ASmoothGainTakesFewerOddsAndNoneTakesMore) {
  constexpr double kMargin = 0.005;
  EXPECT_DOUBLE_EQ(odds_by_smooth_gain({.mean = kMargin, .deviation = 0.01}, kMargin), 1);
  EXPECT_DOUBLE_EQ(odds_by_smooth_gain({}, kMargin), 0.25);
  EXPECT_DOUBLE_EQ(odds_by_smooth_gain({.mean = -0.3, .deviation = 0.01}, kMargin), 0.25);
  EXPECT_DOUBLE_EQ(odds_by_smooth_gain({.deviation = std::numeric_limits<double>::infinity()}, kMargin), 1);
  EXPECT_DOUBLE_EQ(odds_by_smooth_gain({.mean = 0.005, .deviation = 0}, 0), 20) << "a sure gain of two errors or more";
  const double sure = odds_by_smooth_gain({.mean = 0.05, .deviation = 0.001}, kMargin);
  EXPECT_GT(sure, odds_by_smooth_gain({.mean = 0.05, .deviation = 0.03}, kMargin));
  // Five requests of one saved step are odds of 3, by the counted steps alone too few; nine are 7, and enough.
  EXPECT_EQ(evaluate_candidate({}, test_of(5, 1, kMargin, 0.4)).outcome, CanaryOutcome::kUndecided);
  EXPECT_EQ(evaluate_candidate({}, test_of(5, 1, kMargin, 6)).outcome, CanaryOutcome::kPublish);
  EXPECT_EQ(evaluate_candidate({}, test_of(9, 1, kMargin, 0.4)).outcome, CanaryOutcome::kPublish);
  EXPECT_EQ(evaluate_candidate({}, test_of(9, 1, kMargin, -3)).outcome, CanaryOutcome::kUndecided);
}

// Regression: a trainer whose first exports were worse on few answers lost all its steps, and its topic learned nothing
// for 128 requests, while the smooth counts already rose.
TEST(Canary, ALossThatTheSmoothCountsDenyIsRefusedButNotHarmful) {
  const CanaryVerdict denied = evaluate_candidate({}, test_of(12, -3, CanaryOptions{}.margin, 2));
  EXPECT_EQ(denied.outcome, CanaryOutcome::kRefuse);
  EXPECT_FALSE(denied.harmful);
  const CanaryVerdict confirmed = evaluate_candidate({}, test_of(12, -3, CanaryOptions{}.margin, -2));
  EXPECT_EQ(confirmed.outcome, CanaryOutcome::kRefuse);
  EXPECT_TRUE(confirmed.harmful);
}

TEST(Canary, TooFewRequestsNeverPublish) {
  EXPECT_EQ(evaluate_candidate({}, PairedTest()).outcome, CanaryOutcome::kUndecided);
  const CanaryOptions options{.min_requests = 8};
  EXPECT_EQ(evaluate_candidate(options, test_of(7, 20)).outcome, CanaryOutcome::kUndecided);
  EXPECT_EQ(evaluate_candidate(options, test_of(8, 20)).outcome, CanaryOutcome::kPublish);
}

// Evidence of earlier exports is inherited, but the newest one must itself have been scored without a loss.
TEST(Canary, ASuccessorIsScoredItselfBeforeItIsPublished) {
  PairedTest inherited = test_of(40, 3);
  inherited.begin_successor();
  EXPECT_EQ(evaluate_candidate({}, inherited).outcome, CanaryOutcome::kUndecided);
  PairedTest sound = inherited;
  for (int i = 0; i < 8; ++i) sound.add(pair_that_saves(0.5));
  EXPECT_EQ(evaluate_candidate({}, sound).outcome, CanaryOutcome::kPublish);
  PairedTest harmful = inherited;
  for (int i = 0; i < 8; ++i) harmful.add(pair_that_saves(-0.5));
  const CanaryVerdict verdict = evaluate_candidate({}, harmful);
  EXPECT_GT(harmful.log_evidence_better(), std::log(25.0));
  EXPECT_EQ(verdict.outcome, CanaryOutcome::kUndecided) << verdict.reason;
  for (int i = 0; i < 8; ++i) harmful.add(pair_that_saves(-1.5));
  EXPECT_EQ(evaluate_candidate({}, harmful).outcome, CanaryOutcome::kRefuse);
}

TEST(Canary, AGainBelowTheMarginIsNotPublished) {
  const double margin = 0.02;  // of 80 tested tokens: 1.6 steps
  EXPECT_EQ(evaluate_candidate({.margin = margin}, test_of(16, 1, margin)).outcome, CanaryOutcome::kUndecided);
  EXPECT_EQ(evaluate_candidate({.margin = margin}, test_of(400, 1, margin)).outcome, CanaryOutcome::kRefuse);
  EXPECT_EQ(evaluate_candidate({.margin = margin}, test_of(30, 2, margin)).outcome, CanaryOutcome::kPublish);
}

// A draft that often wins by little and rarely loses by much is better by the bets but worse in tokens.
TEST(Canary, RareLargeLossesArePooled) {
  PairedTest test(0.005);
  for (int i = 0; i < 200; ++i) test.add(pair_that_saves(i % 20 == 19 ? -40 : 1.6));
  EXPECT_LT(test.gain().value, 0);
  EXPECT_NE(evaluate_candidate({}, test).outcome, CanaryOutcome::kPublish);
}

TEST(Canary, DraftsThatAreAlikeAreLeftAsTheyAre) {
  EXPECT_NE(evaluate_candidate({}, test_of(1000, 0)).outcome, CanaryOutcome::kPublish);
  LiveWatch watch;
  for (int i = 0; i < 1000; ++i) watch.add(pair_that_saves(0));
  EXPECT_EQ(evaluate_live({}, watch).outcome, CanaryOutcome::kUndecided);
}

TEST(Canary, AWorseLiveVersionIsRolledBackWithoutAMinimumOfRequests) {
  LiveWatch watch;
  for (int i = 0; i < 2; ++i) watch.add(pair_that_saves(-36));
  const CanaryVerdict verdict = evaluate_live({}, watch);
  EXPECT_EQ(verdict.outcome, CanaryOutcome::kRefuse);
  EXPECT_NEAR(verdict.gain, -0.45, 1e-12);
  EXPECT_LE(verdict.p_value, 1 / CanaryOptions{}.odds_to_roll_back);
}

TEST(Canary, TheReasonIsOneLineForPeople) {
  EXPECT_EQ(evaluate_candidate({}, test_of(8, 8)).reason,
            "better: odds 184 of 5, gain +0.100 [+0.100, +0.100], 8 requests");
  EXPECT_EQ(evaluate_candidate({}, test_of(100, 8)).reason,
            "better: odds over 8.1e+03 of 5, gain +0.100 [+0.100, +0.100], 100 requests");
}

// An overfitted candidate that passes on new text is still refused on held-out text.
TEST(Canary, HeldOutTextObjectsToAClearLossOnly) {
  const CanaryVerdict verdict = evaluate_candidate({}, test_of(20, 3));
  ASSERT_EQ(verdict.outcome, CanaryOutcome::kPublish);
  const auto sums = [](double candidate, double live) {
    PairedScore pair;
    pair.candidate.accepted = candidate;
    pair.candidate.first_rejections = 100 - candidate;
    pair.live.accepted = live;
    pair.live.first_rejections = 100 - live;
    return pair;
  };
  EXPECT_FALSE(heldout_objection({}, 0, verdict).has_value()) << "nothing was held out";
  EXPECT_FALSE(heldout_objection(sums(50, 40), 16, verdict).has_value());
  EXPECT_FALSE(heldout_objection(sums(40, 42), 16, verdict).has_value()) << "within the noise of few answers";
  EXPECT_FALSE(heldout_objection(sums(40, 50), 3, verdict).has_value()) << "three answers say little";
  EXPECT_TRUE(heldout_objection(sums(10, 90), 3, verdict).has_value()) << "but enough about a ruined draft";
  const auto objection = heldout_objection(sums(40, 50), 16, verdict);
  ASSERT_TRUE(objection.has_value());
  EXPECT_EQ(objection->outcome, CanaryOutcome::kRefuse);
  EXPECT_TRUE(objection->harmful) << "the trainer starts over";
  EXPECT_NE(objection->reason.find("held-out"), std::string::npos) << objection->reason;
}

}  // namespace
}  // namespace slip
