// SPDX-License-Identifier: Apache-2.0
#include "distill/canary/learning_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <utility>

#include "engine/sampling/random.h"

namespace slip {
namespace {

// A trainer whose true rate above the base draft's rises to `height` with a time constant, seen through noise.
struct Trainer {
  double height = 0.15, time_constant = 40, requests = 16;
  std::uint64_t seed = 1;
  std::uint32_t n = 0;

  CurvePoint at(double steps) {
    const double u = uniform({seed, 0, 1}, RandomPurpose::kDraft, n),
                 v = uniform({seed, 0, 2}, RandomPurpose::kDraft, n);
    ++n;
    const double normal = std::sqrt(-2 * std::log(u + 1e-12)) * std::cos(2 * std::numbers::pi * v);
    const double alpha_base = 0.3 + 0.1 * v;  // texts differ more than drafts
    const double rise = height * (1 - std::exp(-steps / time_constant));
    return {steps, alpha_base + rise + 0.1 / std::sqrt(requests) * normal, alpha_base, requests};
  }
};

TEST(LearningCurve, AFreshTopicMayInvest) {
  const LearningCurve curve;
  EXPECT_NEAR(curve.rise(40).mean, 0.08, 0.01);
  EXPECT_GE(curve.predicted_gain(40), 0.08);
  EXPECT_LT(curve.predicted_gain(10), curve.predicted_gain(40));
  EXPECT_DOUBLE_EQ(curve.predicted_gain(0), 0);
}

// Training cannot gain tokens that a prompt lookup proposes already.
TEST(LearningCurve, OnlyWhatProposalsWaitForIsToBeLearned) {
  const double alone = LearningCurve(0.1).rise(40).mean;
  EXPECT_NEAR(LearningCurve(0.1, 0.4).rise(40).mean, 0.4 * alone, 1e-9);
}

// An export that was published after six lucky requests is corrected by the next sixty.
TEST(LearningCurve, LaterRequestsPutALuckyExportRight) {
  LearningCurve curve(0.4);
  curve.start_from_base();
  curve.add({20, 0.475, 0.40, 6});
  const double hoped = curve.predicted_gain(40);
  for (int i = 0; i < 60; ++i) curve.add_to_known({20, 0.39, 0.40, 1});
  EXPECT_LT(curve.predicted_gain(40), 0.5 * hoped);
  const double before = curve.predicted_gain(40);
  curve.add_to_known({4, 0.9, 0.1, 100});
  EXPECT_EQ(curve.predicted_gain(40), before) << "no such export";
}

TEST(LearningCurve, ARisingCurveIsPredictedToRise) {
  int n_close = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Trainer trainer{.time_constant = 80, .requests = 32, .seed = seed};
    LearningCurve curve;
    for (const double steps : {0, 20, 40, 60}) curve.add(trainer.at(steps));
    const double truth = 0.15 * (std::exp(-60.0 / 80) - std::exp(-100.0 / 80));
    n_close += std::abs(curve.predicted_gain(40) - truth) < 0.03 ? 1 : 0;
  }
  EXPECT_GE(n_close, 17);
}

// Measured on sql: a straight line through 26 steps that gained .37 predicted .43 more.
TEST(LearningCurve, ACurveThatBendsPromisesNoLine) {
  LearningCurve curve(0.01);
  curve.start_from_base();
  for (const auto& [steps, alpha] : {std::pair{5.0, 0.28}, {17.0, 0.34}, {27.0, 0.37}}) {
    curve.add({steps, alpha, 0.01, 12});
  }
  EXPECT_LT(curve.predicted_gain(40), 0.25);
  EXPECT_GT(curve.predicted_gain(40), 0.05);
}

// Measured on sql, a little later: the gain of the first steps does not repeat. The actual gain was .05.
TEST(LearningCurve, TheFirstRiseIsNotPromisedAgain) {
  LearningCurve curve(0.01);
  curve.start_from_base();
  for (const auto& [steps, alpha] : {std::pair{5.0, 0.28}, {17.0, 0.34}, {27.0, 0.37}, {46.0, 0.40}}) {
    curve.add({steps, alpha, 0.01, 12});
  }
  EXPECT_LT(curve.predicted_gain(40), 0.09);
  EXPECT_GT(curve.predicted_gain(40), 0.03);
}

TEST(LearningCurve, AFlatCurveComesToNothingWithTheData) {
  int n_flat = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Trainer trainer{.seed = seed};
    LearningCurve curve;
    double before = 1;
    for (int steps = 0; steps <= 400; steps += 20) {
      if (steps == 100) before = curve.predicted_gain(40);
      curve.add(trainer.at(steps));
    }
    EXPECT_LT(curve.predicted_gain(40), before);
    n_flat += curve.predicted_gain(40) < 0.003 ? 1 : 0;
  }
  EXPECT_GE(n_flat, 14);
}

// A trainer that never learns costs a bounded number of steps: the prior fades within the first hundred.
TEST(LearningCurve, ATrainerThatNeverLearnsIsFoundOut) {
  Trainer trainer{.height = 0, .requests = 64};
  LearningCurve curve;
  for (int steps = 0; steps <= 160; steps += 20) curve.add(trainer.at(steps));
  EXPECT_LT(curve.predicted_gain(40), 0.006);
}

// The first export's slope starts at the base draft's point; without it the curve would have a level but no slope.
TEST(LearningCurve, OneExportOfATrainerThatStartedFromTheBaseIsASlope) {
  const auto after = [](bool from_base, double gain) {
    LearningCurve curve(0.4);
    if (from_base) curve.start_from_base();
    curve.add({20, 0.4 + gain, 0.4, 40});
    return curve.rise(40).mean;
  };
  EXPECT_DOUBLE_EQ(after(false, 0.2), after(false, -0.05));
  EXPECT_GT(after(true, 0.2), 2 * after(false, 0.2));
  EXPECT_LT(after(true, -0.05), 0);
}

TEST(LearningCurve, UncertaintyHasAValueThatMoreRequestsTakeAway) {
  LearningCurve vague, sure;
  for (const double steps : {0, 40, 80, 120}) {
    vague.add({steps, 0.4, 0.3, 2});
    sure.add({steps, 0.4, 0.3, 200});
  }
  EXPECT_GT(vague.rise(40).deviation, sure.rise(40).deviation);
  EXPECT_GT(vague.predicted_gain(40), sure.predicted_gain(40));
}

TEST(LearningCurve, AFallIsNoGain) {
  LearningCurve curve;
  for (const double steps : {0, 40, 80, 120}) curve.add({steps, 0.5 - steps / 1000, 0.3, 100});
  EXPECT_LT(curve.rise(40).mean, 0);
  EXPECT_GE(curve.predicted_gain(40), 0);
  EXPECT_LT(curve.predicted_gain(40), 1e-4);
}

TEST(LearningCurve, MeasurementsOfOneExportArePooled) {
  LearningCurve pooled, whole;
  pooled.start_from_base();
  whole.start_from_base();
  pooled.add({40, 0.5, 0.3, 10});
  pooled.add({40, 0.3, 0.3, 30});
  whole.add({40, 0.35, 0.3, 40});
  EXPECT_NEAR(pooled.rise(40).mean, whole.rise(40).mean, 1e-12);
  EXPECT_DOUBLE_EQ(pooled.rise(40).deviation, whole.rise(40).deviation);
}

TEST(LearningCurve, ATrainerThatStartsOverStartsANewCurve) {
  LearningCurve curve;
  for (const double steps : {200, 240, 280}) curve.add({steps, 0.5, 0.3, 100});
  EXPECT_LT(curve.predicted_gain(40), 0.01);
  curve.add({0, 0.3, 0.3, 100});
  EXPECT_GT(curve.predicted_gain(40), 0.07);
  EXPECT_DOUBLE_EQ(curve.latest_steps(), 0);
}

TEST(LearningCurve, PointsWithoutNumbersAreIgnored) {
  LearningCurve curve;
  curve.add({20, std::nan(""), 0.3, 8});
  curve.add({20, 0.4, 0.3, 0});
  EXPECT_TRUE(curve.empty());
}

}  // namespace
}  // namespace slip
