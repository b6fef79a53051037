// SPDX-License-Identifier: Apache-2.0
#include "distill/canary/paired_test.h"

#include <gtest/gtest.h>
#include <cmath>
#include <limits>
#include <type_traits>

#include "common/error.h"
#include "tests/distill/canary/paired_traffic.h"

namespace slip {
namespace {

static_assert(std::is_trivially_copyable_v<PairedTest> && std::is_trivially_copyable_v<LiveWatch>);

AcceptanceScore score_of(double accepted, double first_rejections, double bonuses = 0) {
  AcceptanceScore score;
  score.accepted = accepted;
  score.first_rejections = first_rejections;
  score.steps = 1 + first_rejections + bonuses;
  score.tokens = accepted + score.steps;
  return score;
}

// The newer draft saves `steps` of 41 on 81 tokens.
PairedScore pair_that_saves(double steps) {
  return {score_of(40 + steps, 40 - steps), score_of(40, 40)};
}

TEST(PairedTest, AHandWorkedExample) {
  PairedTest test;
  EXPECT_EQ(test.log_evidence_better(), 0);
  test.add(pair_that_saves(2));
  test.add(pair_that_saves(-1));
  // Bets .15 and .3: (1 + tanh .3)(1 − tanh .15) = 1.291313 · 0.851115 and (1 + tanh .6)(1 − tanh .3) = 1.537050 ·
  // 0.708687. Not better: 0.708687 · 1.148885 and 0.462950 · 1.291313. The evidence is the mean of the two products.
  EXPECT_NEAR(std::exp(test.log_evidence_better()), 1.094172, 1e-6);
  EXPECT_NEAR(std::exp(test.log_evidence_below_margin()), 0.706007, 1e-6);
  EXPECT_EQ(test.size(), 2U);
}

TEST(PairedTest, TiesAndRequestsWithoutDraftsAreNoEvidence) {
  PairedTest test;
  LiveWatch watch;
  for (int i = 0; i < 100; ++i) {
    test.add(pair_that_saves(0));
    test.add({});  // k = 0: nothing was drafted
    watch.add(pair_that_saves(0));
  }
  EXPECT_NEAR(test.log_evidence_better(), 0, 1e-12);
  EXPECT_NEAR(test.log_evidence_below_margin(), 0, 1e-12);
  EXPECT_LT(watch.log_evidence_worse(), std::log(1 + 100 / 500.0));
}

// Regression: identical pairs have no jackknife error, so three of them gave p = 0. A request now counts for a factor
// of at most 2, however large its gain.
TEST(PairedTest, EqualPairsBringNoMoreThanTheirBets) {
  PairedTest test;
  for (int i = 0; i < 5; ++i) test.add(pair_that_saves(20));
  EXPECT_LE(test.log_evidence_better(), 5 * std::log(2.0));
  EXPECT_GT(test.log_evidence_better(), 4.9 * std::log(2.0));
}

TEST(PairedTest, ALossCountsInFull) {
  PairedTest test;
  for (int i = 0; i < 5; ++i) test.add(pair_that_saves(3));
  const double before = test.log_evidence_better();
  test.add(pair_that_saves(-20));
  EXPECT_LT(test.log_evidence_better(), before - 5);
  EXPECT_TRUE(std::isfinite(PairedTest(test).log_evidence_better()));
  for (int i = 0; i < 10'000; ++i) test.add(pair_that_saves(-40));
  EXPECT_TRUE(std::isfinite(test.log_evidence_better()));
  EXPECT_NEAR(test.log_evidence_below_margin(), 10'000 * std::log(2.0), 30);
}

TEST(PairedTest, TheMarginMovesTheSecondNullHypothesis) {
  PairedTest test(0.05);  // of 80 tested tokens: 4 steps
  for (int i = 0; i < 20; ++i) test.add(pair_that_saves(4));
  EXPECT_NEAR(test.log_evidence_below_margin(), 0, 1e-12);
  EXPECT_GT(test.log_evidence_better(), 5);
  for (int i = 0; i < 20; ++i) test.add(pair_that_saves(1));
  EXPECT_GT(test.log_evidence_below_margin(), 5);
}

TEST(PairedTest, ASuccessorInheritsWhatSpeaksForItAndNothingElse) {
  PairedTest test(0.005);
  for (int i = 0; i < 6; ++i) test.add(pair_that_saves(2));
  const double inherited = test.log_evidence_better();
  test.begin_successor();
  EXPECT_EQ(test.log_evidence_better(), inherited);
  EXPECT_EQ(test.log_evidence_below_margin(), 0);
  EXPECT_EQ(test.size(), 6U);
  EXPECT_EQ(test.own_size(), 0U);
  EXPECT_EQ(test.begun(), 1U) << "it goes on";
  for (int i = 0; i < 20; ++i) test.add(pair_that_saves(-2));
  EXPECT_LT(test.log_evidence_better(), 0);
  test.begin_successor();
  EXPECT_EQ(test.log_evidence_better(), 0);
  EXPECT_EQ(test.size(), 0U);
  EXPECT_EQ(test.gain().value, 0);
  EXPECT_EQ(test.begun(), 2U);
  test.begin_successor();
  EXPECT_EQ(test.begun(), 2U) << "nothing was scored with the one before";
}

// Regression: each refusal and each publication set it to 1. Exports that were all alike then brought 7 false
// publications in 10,000 requests.
TEST(PairedTest, TheCountOfBeginningsOutlivesAVerdict) {
  PairedTest test(0.005);
  for (std::size_t refusals = 1; refusals <= 4; ++refusals) {
    for (int i = 0; i < 6; ++i) test.add(pair_that_saves(2));
    test.begin_anew();
    EXPECT_EQ(test.size(), 0U);
    EXPECT_EQ(test.log_evidence_better(), 0) << "evidence does not outlive it";
    EXPECT_EQ(test.begun(), 1 + refusals);
  }
  for (int i = 0; i < 6; ++i) test.add(pair_that_saves(2));
  test.begin_against_new_live();
  EXPECT_EQ(test.log_evidence_better(), 0);
  EXPECT_EQ(test.begun(), 2U);
  test.begin_against_new_live();
  test.begin_against_new_live();
  EXPECT_EQ(test.begun(), 1U);
}

TEST(PairedTest, AScoreThatIsNotANumberIsOurBug) {
  PairedScore pair = pair_that_saves(1);
  pair.candidate.steps = std::numeric_limits<double>::quiet_NaN();
  PairedTest test;
  EXPECT_DEATH(test.add(pair), "not a number");
}

// Ville's inequality in a case where it is nearly tight: equal drafts, evaluated at every request.
TEST(PairedTest, FalseEvidenceIsBoundedAtEveryLook) {
  constexpr int kTrials = 1000;
  constexpr double kOdds = 10;
  int reached = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const PairedTraffic traffic{.seed = static_cast<std::uint64_t>(trial) + 1};
    PairedTest test;
    double most = 0;
    for (std::uint32_t i = 0; i < 60; ++i) {
      test.add(traffic.request(i, 0));
      most = std::max(most, test.log_evidence_better());
    }
    reached += most >= std::log(kOdds) ? 1 : 0;
  }
  EXPECT_LT(reached, kTrials / kOdds);
  EXPECT_GT(reached, kTrials / kOdds / 10) << "a test that never errs has no power";
}

// The planted bug: drafts that are scored on different texts. The texts' own differences then hide the gain.
TEST(PairedTest, NegativeScoresOfDifferentTextsFindNothing) {
  const auto growth = [](bool paired) {
    double sum = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      const PairedTraffic traffic{.seed = seed};
      PairedTest test;
      for (std::uint32_t i = 0; i < 20; ++i) {
        PairedScore pair = traffic.request(i, 0.03);
        if (!paired) pair.live = traffic.request(i + 1000, 0.03).live;
        test.add(pair);
      }
      sum += test.log_evidence_better() / 60;
    }
    return sum;
  };
  EXPECT_GT(growth(true), 2);
  EXPECT_LT(growth(false), 0);
}

// Coverage of the plain interval at a fixed size.
TEST(GainEstimate, TheIntervalCoversTheGain) {
  double truth = 0;
  int covered = 0;
  constexpr int kTrials = 400;
  GainEstimate all;
  for (std::uint32_t i = 0; i < 20'000; ++i) all.add(PairedTraffic{.seed = 999}.request(i, 0.03));
  truth = all.gain().value;
  EXPECT_NEAR(truth, 0.03, 0.003);
  for (int trial = 0; trial < kTrials; ++trial) {
    const PairedTraffic traffic{.seed = static_cast<std::uint64_t>(trial) + 1};
    GainEstimate estimate;
    for (std::uint32_t i = 0; i < 40; ++i) estimate.add(traffic.request(i, 0.03));
    covered += estimate.gain().low <= truth && truth <= estimate.gain().high ? 1 : 0;
  }
  EXPECT_NEAR(covered, 0.94 * kTrials, 0.03 * kTrials);
}

TEST(GainEstimate, AHandWorkedExample) {
  // Newer 8 of 10 and 7 of 10, older 5 of 10 and 5 of 10. Linearised: (8 − 7.5)/20 = .025 and −.025; the older ones 0.
  GainEstimate estimate;
  estimate.add({score_of(8, 2), score_of(5, 5)});
  estimate.add({score_of(7, 3), score_of(5, 5)});
  const Gain gain = estimate.gain();
  EXPECT_NEAR(gain.alpha_newer, 0.75, 1e-12);
  EXPECT_NEAR(gain.value, 0.25, 1e-12);
  EXPECT_NEAR(gain.high - gain.value, 1.959964 * std::sqrt(2 * 0.025 * 0.025), 1e-6);
  EXPECT_NEAR(gain.length_newer, 22.0 / 7, 1e-12);  // (8 + 3 + 7 + 4) tokens in 3 + 4 steps
}

TEST(GainEstimate, ForgettingFollowsAChange) {
  GainEstimate forgetting(0.99);
  GainEstimate all;
  for (int i = 0; i < 2000; ++i) {
    const PairedScore pair = pair_that_saves(i < 1000 ? 8 : -8);
    forgetting.add(pair);
    all.add(pair);
  }
  EXPECT_NEAR(forgetting.gain().value, -0.1, 1e-3);
  EXPECT_NEAR(all.gain().value, 0, 1e-3);
}

TEST(LiveWatch, ADeclineIsFoundAfterALongGoodTime) {
  LiveWatch watch;
  for (std::uint32_t i = 0; i < 3000; ++i) watch.add(PairedTraffic{}.request(i, 0.03));
  EXPECT_LT(watch.log_evidence_worse(), 0);
  int requests = 0;
  for (; watch.log_evidence_worse() < std::log(4.0) && requests < 200; ++requests) {
    watch.add(PairedTraffic{}.request(static_cast<std::uint32_t>(3000 + requests), -0.1));
  }
  EXPECT_LE(requests, 25);
  EXPECT_LT(watch.gain().value, 0.03);
}

// A draft of random weights: the third bet detects it in two requests, where sign bets need four.
TEST(LiveWatch, GrossLossIsFoundInTwoRequests) {
  LiveWatch watch;
  watch.add(pair_that_saves(-36));
  watch.add(pair_that_saves(-36));
  EXPECT_GT(watch.log_evidence_worse(), std::log(4.0));
}

// An answer that repeated itself for 115 of 128 tokens took the base draft 45 steps and the live one 101. It rolled
// back a version that was better on every other answer, and its training was lost.
TEST(LiveWatch, OneAnswerThatRepeatsItselfIsNotEnough) {
  AcceptanceScore live{.steps = 101, .tokens = 128}, base{.steps = 45, .tokens = 128};
  LiveWatch on_other_text;
  on_other_text.add(pair_of(live, base));
  EXPECT_GT(on_other_text.log_evidence_worse(), std::log(3.0));
  live.repeated = base.repeated = 115;
  LiveWatch watch;
  watch.add(pair_of(live, base));
  EXPECT_LT(watch.log_evidence_worse(), std::log(3.0));
}

TEST(PairedTest, OneAnswerThatRepeatsItselfDoesNotEndTheTest) {
  const AcceptanceScore newer{.steps = 101, .tokens = 128, .repeated = 115},
      older{.steps = 45, .tokens = 128, .repeated = 115};
  PairedTest test, unweighted;
  for (int i = 0; i < 30; ++i) {
    test.add(pair_that_saves(2));
    unweighted.add(pair_that_saves(2));
  }
  test.add(pair_of(newer, older));
  unweighted.add({newer, older});
  EXPECT_GT(test.log_evidence_better(), std::log(20.0));
  EXPECT_LT(unweighted.log_evidence_better(), std::log(1.0));
  EXPECT_EQ(pair_of(pair_that_saves(2).candidate, pair_that_saves(2).live).candidate.steps,
            pair_that_saves(2).candidate.steps)
      << "other answers count in full";
}

}  // namespace
}  // namespace slip
