// SPDX-License-Identifier: Apache-2.0
#include "distill/canary.h"

#include <gtest/gtest.h>
#include <cmath>
#include <vector>

#include "engine/sample/random.h"

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

// Requests as traffic has them: lengths from a handful to a hundred trials, difficulty shared by both drafts, and
// skewed. The newer draft's α is `gain` above the older one's.
class Traffic {
 public:
  Traffic(std::uint64_t seed, double gain) : seed_(seed), gain_(gain) {}

  PairedScore next() {
    const double length = 5 * std::exp(3 * draw());
    const double difficulty = 0.2 + 0.6 * draw() * draw();
    const AcceptanceScore newer = request(difficulty + gain_, length);
    return {newer, request(difficulty, length)};
  }

 private:
  AcceptanceScore request(double alpha, double length) {
    double accepted = 0;
    const int trials = static_cast<int>(length);
    for (int i = 0; i < trials; ++i) accepted += draw() < alpha ? 1 : 0;
    return score_of(accepted, trials - accepted);
  }
  double draw() { return uniform(RandomAddress{seed_, 0, count_++}, RandomPurpose::kDraft); }

  std::uint64_t seed_;
  double gain_;
  std::uint32_t count_ = 0;
};

// Looks after 8, 16, 32, 64 requests, as the learner does; returns the share of trials that end with `wanted`.
template <class Judge>
double share_of(CanaryOutcome wanted, int trials, double gain, const Judge& judge) {
  int ended = 0;
  for (int trial = 0; trial < trials; ++trial) {
    Traffic traffic(static_cast<std::uint64_t>(trial) + 1, gain);
    std::vector<PairedScore> pairs;
    std::uint64_t look = 0;
    for (const std::size_t n : {8U, 16U, 32U, 64U}) {
      while (pairs.size() < n) pairs.push_back(traffic.next());
      const CanaryVerdict verdict = judge(pairs, ++look);
      if (verdict.outcome == wanted) ++ended;
      if (verdict.outcome != CanaryOutcome::kUndecided) break;
    }
  }
  return static_cast<double>(ended) / trials;
}

TEST(Canary, AHandWorkedExample) {
  // Candidate 30 of 40, live 20 of 40 in all; per request +.3, +.2, +.25: the gain is .25 with a small error.
  const std::vector<PairedScore> pairs = {
      {score_of(8, 2), score_of(5, 5)}, {score_of(7, 3), score_of(5, 5)}, {score_of(15, 5), score_of(10, 10)}};
  const CanaryVerdict verdict = judge_candidate({.min_requests = 3}, pairs, 1);
  EXPECT_NEAR(verdict.alpha_candidate, 0.75, 1e-12);
  EXPECT_NEAR(verdict.alpha_live, 0.5, 1e-12);
  EXPECT_NEAR(verdict.gain, 0.25, 1e-12);
  // Leaving each out: 22/30 − 15/30 = .2333, 23/30 − 15/30 = .2667, 15/20 − 10/20 = .25;
  // variance (n−1)/n Σ(…−.25)² = 2/3 · 2 · (1/60)² → error .019245; t quantile (2 degrees) 4.302653.
  EXPECT_NEAR(verdict.gain_high - verdict.gain, 4.302653 * 0.0192450, 1e-5);
  // The exact test over 8 swaps has at best 1/8, above t's .003: it counts.
  EXPECT_NEAR(verdict.p_value, 0.125, 1e-12);
  EXPECT_EQ(verdict.outcome, CanaryOutcome::kUndecided);
  EXPECT_NEAR(verdict.length_candidate, (11 + 11 + 21) / (3.0 + 4 + 6), 1e-12);
}

TEST(Canary, TooFewRequestsNeverDecide) {
  std::vector<PairedScore> pairs(7, {score_of(100, 0), score_of(0, 100)});
  EXPECT_EQ(judge_candidate({}, pairs, 1).outcome, CanaryOutcome::kUndecided);
  EXPECT_EQ(judge_candidate({}, {}, 1).outcome, CanaryOutcome::kUndecided);
  pairs.push_back(pairs.back());
  EXPECT_EQ(judge_candidate({}, pairs, 1).outcome, CanaryOutcome::kPublish);
}

// Under "no difference" the error over all looks stays below the significance that was asked for.
TEST(Canary, TypeOneErrorIsBoundedOverAllLooks) {
  constexpr int kTrials = 3000;
  const double wrong = share_of(CanaryOutcome::kPublish, kTrials, 0.0, [](const auto& pairs, std::uint64_t look) {
    return judge_candidate({.margin = 0, .significance = 0.05}, pairs, look);
  });
  EXPECT_LT(wrong, 0.05);
  EXPECT_GT(wrong, 0.005) << "a test that never errs has no power";
}

// The planted bug: a judge that forgets that it looked before must break the bound.
TEST(Canary, NegativeAJudgeThatIgnoresLooksExceedsTheBound) {
  constexpr int kTrials = 3000;
  const double wrong = share_of(CanaryOutcome::kPublish, kTrials, 0.0, [](const auto& pairs, std::uint64_t) {
    return judge_candidate({.margin = 0, .significance = 2 * 0.05}, pairs, 1);  // α/(1·2) = .05 at every look
  });
  EXPECT_GT(wrong, 0.07);
}

TEST(Canary, ARealGainIsFound) {
  const auto judge = [](const auto& pairs, std::uint64_t look) { return judge_candidate({}, pairs, look); };
  EXPECT_GT(share_of(CanaryOutcome::kPublish, 300, 0.10, judge), 0.9);
  EXPECT_GT(share_of(CanaryOutcome::kPublish, 300, 0.05, judge), 0.4);
}

TEST(Canary, ALossIsRefusedAndNeverPublished) {
  const auto judge = [](const auto& pairs, std::uint64_t look) { return judge_candidate({}, pairs, look); };
  EXPECT_EQ(share_of(CanaryOutcome::kPublish, 500, -0.05, judge), 0);
  EXPECT_GT(share_of(CanaryOutcome::kRefuse, 500, -0.10, judge), 0.9);
}

// A sure gain of less than the margin is not worth a swap.
TEST(Canary, BelowTheMarginIsNotPublished) {
  std::vector<PairedScore> pairs;
  for (int i = 0; i < 40; ++i) pairs.push_back({score_of(504, 496), score_of(500, 500)});
  const CanaryVerdict verdict = judge_candidate({.margin = 0.005}, pairs, 1);
  EXPECT_LT(verdict.p_value, 0.001);
  EXPECT_EQ(verdict.outcome, CanaryOutcome::kRefuse);
  EXPECT_EQ(judge_candidate({.margin = 0.003}, pairs, 1).outcome, CanaryOutcome::kPublish);
}

TEST(Canary, DraftsThatAreAlikeAreNeitherPublishedNorRolledBack) {
  const std::vector<PairedScore> pairs(30, {score_of(5, 5), score_of(5, 5)});
  EXPECT_EQ(judge_candidate({}, pairs, 1).outcome, CanaryOutcome::kRefuse);
  EXPECT_EQ(judge_live({}, pairs, 1).outcome, CanaryOutcome::kPublish);
  const std::vector<PairedScore> empty(30);  // k = 0 traffic: nothing was drafted
  EXPECT_NE(judge_candidate({}, empty, 1).outcome, CanaryOutcome::kPublish);
  EXPECT_NE(judge_live({}, empty, 1).outcome, CanaryOutcome::kRefuse);
}

TEST(Canary, AWorseLiveVersionIsRolledBackAndASoundOneRarely) {
  const CanaryOptions options{.rollback_requests = 64};
  const auto judge = [&](const auto& pairs, std::uint64_t look) { return judge_live(options, pairs, look); };
  EXPECT_GT(share_of(CanaryOutcome::kRefuse, 300, -0.10, judge), 0.9);
  EXPECT_LT(share_of(CanaryOutcome::kRefuse, 1000, 0.0, judge), 0.05);
  EXPECT_GT(share_of(CanaryOutcome::kPublish, 300, 0.05, judge), 0.95);
}

// The newer draft saves `steps` of 41 on 81 tokens.
PairedScore pair_that_saves(double steps) {
  return {score_of(40 + steps, 40 - steps), score_of(40, 40)};
}

PairedTest test_of(std::size_t n, double steps, double margin = CanaryOptions{}.margin) {
  PairedTest test(margin);
  for (std::size_t i = 0; i < n; ++i) test.add(pair_that_saves(steps));
  return test;
}

TEST(SequentialCanary, TheFirstExportNeedsItsOddsAndLaterOnesMore) {
  const CanaryOptions options;
  EXPECT_EQ(required_odds(options, 1), 20);
  EXPECT_EQ(required_odds(options, 2), 25);
  EXPECT_EQ(required_odds(options, 37), 200);
  EXPECT_EQ(required_odds(options, 10'000), 200);
  // Fifteen requests of one saved step are odds of 23: enough for the first export, too little for the ninth.
  EXPECT_EQ(judge_candidate(options, test_of(16, 1)).outcome, CanaryOutcome::kPublish);
  PairedTest ninth(options.margin);
  for (int i = 0; i < 8; ++i) ninth.begin_successor();
  for (int i = 0; i < 16; ++i) ninth.add(pair_that_saves(1));
  EXPECT_EQ(judge_candidate(options, ninth).outcome, CanaryOutcome::kUndecided);
}

TEST(SequentialCanary, TooFewRequestsNeverPublish) {
  EXPECT_EQ(judge_candidate({}, PairedTest()).outcome, CanaryOutcome::kUndecided);
  EXPECT_EQ(judge_candidate({}, test_of(7, 20)).outcome, CanaryOutcome::kUndecided);
  EXPECT_EQ(judge_candidate({}, test_of(8, 20)).outcome, CanaryOutcome::kPublish);
}

// What earlier exports showed is inherited, but the newest one must have been scored itself, without a loss.
TEST(SequentialCanary, ASuccessorIsScoredItselfBeforeItIsPublished) {
  PairedTest inherited = test_of(40, 3);
  inherited.begin_successor();
  EXPECT_EQ(judge_candidate({}, inherited).outcome, CanaryOutcome::kUndecided);
  PairedTest sound = inherited;
  for (int i = 0; i < 8; ++i) sound.add(pair_that_saves(0.5));
  EXPECT_EQ(judge_candidate({}, sound).outcome, CanaryOutcome::kPublish);
  PairedTest harmful = inherited;
  for (int i = 0; i < 8; ++i) harmful.add(pair_that_saves(-0.5));
  const CanaryVerdict verdict = judge_candidate({}, harmful);
  EXPECT_GT(harmful.log_evidence_better(), std::log(25.0));
  EXPECT_EQ(verdict.outcome, CanaryOutcome::kUndecided) << verdict.reason;
  for (int i = 0; i < 8; ++i) harmful.add(pair_that_saves(-1.5));
  EXPECT_EQ(judge_candidate({}, harmful).outcome, CanaryOutcome::kRefuse);
}

TEST(SequentialCanary, AGainBelowTheMarginIsNotPublished) {
  const double margin = 0.02;  // of 80 judged tokens: 1.6 steps
  EXPECT_EQ(judge_candidate({.margin = margin}, test_of(16, 1, margin)).outcome, CanaryOutcome::kUndecided);
  EXPECT_EQ(judge_candidate({.margin = margin}, test_of(400, 1, margin)).outcome, CanaryOutcome::kRefuse);
  EXPECT_EQ(judge_candidate({.margin = margin}, test_of(30, 2, margin)).outcome, CanaryOutcome::kPublish);
}

// A draft that wins often by little and loses rarely by much is better by the bets' count and worse by the tokens'.
TEST(SequentialCanary, RareLargeLossesArePooled) {
  PairedTest test(0.005);
  for (int i = 0; i < 200; ++i) test.add(pair_that_saves(i % 20 == 19 ? -40 : 1.6));
  EXPECT_LT(test.gain().value, 0);
  EXPECT_NE(judge_candidate({}, test).outcome, CanaryOutcome::kPublish);
}

TEST(SequentialCanary, DraftsThatAreAlikeAreLeftAsTheyAre) {
  EXPECT_NE(judge_candidate({}, test_of(1000, 0)).outcome, CanaryOutcome::kPublish);
  LiveWatch watch;
  for (int i = 0; i < 1000; ++i) watch.add(pair_that_saves(0));
  EXPECT_EQ(judge_live({}, watch).outcome, CanaryOutcome::kUndecided);
}

TEST(SequentialCanary, AWorseLiveVersionIsRolledBackWithoutAMinimumOfRequests) {
  LiveWatch watch;
  for (int i = 0; i < 2; ++i) watch.add(pair_that_saves(-36));
  const CanaryVerdict verdict = judge_live({}, watch);
  EXPECT_EQ(verdict.outcome, CanaryOutcome::kRefuse);
  EXPECT_NEAR(verdict.gain, -0.45, 1e-12);
  EXPECT_LE(verdict.p_value, 1 / CanaryOptions{}.odds_to_roll_back);
}

TEST(SequentialCanary, TheReasonIsOneLineForPeople) {
  EXPECT_EQ(judge_candidate({}, test_of(8, 8)).reason,
            "better: odds 184 of 20, gain +0.100 [+0.100, +0.100], 8 requests");
  EXPECT_EQ(judge_candidate({}, test_of(100, 8)).reason,
            "better: odds over 8.1e+03 of 20, gain +0.100 [+0.100, +0.100], 100 requests");
}

TEST(Canary, TheReasonIsOneLineForPeople) {
  const std::vector<PairedScore> pairs(30, {score_of(9, 1), score_of(5, 5)});
  EXPECT_EQ(judge_candidate({}, pairs, 1).reason, "better: gain +0.400 [+0.400, +0.400], p 0.0000, 30 requests");
}

}  // namespace
}  // namespace slip
