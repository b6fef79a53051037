// SPDX-License-Identifier: Apache-2.0
#include "distill/canary/learning_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>

#include "engine/sampling/random.h"

namespace slip {
namespace {

// A trainer whose true rate above the base draft's rises to `height` with a time constant, measured with noise against
// an earlier export.
struct Trainer {
  double height = 0.15, time_constant = 40, requests = 16;
  std::uint64_t seed = 1;
  std::uint32_t n = 0;

  double level(double steps) const { return height * (1 - std::exp(-steps / time_constant)); }
  MeasuredRise between(double from, double to) {
    const double u = uniform({seed, 0, 1}, RandomPurpose::kDraft, n),
                 v = uniform({seed, 0, 2}, RandomPurpose::kDraft, n);
    ++n;
    const double normal = std::sqrt(-2 * std::log(u + 1e-12)) * std::cos(2 * std::numbers::pi * v);
    const double deviation = 0.04 / std::sqrt(requests);
    return {from, to, {level(to) - level(from) + deviation * normal, deviation}};
  }
};

// Exports at the given steps, each measured against the one before.
LearningCurve curve_of(Trainer& trainer, std::initializer_list<double> steps, LearningCurve curve = LearningCurve()) {
  double before = 0;
  for (const double at : steps) {
    curve.add(trainer.between(before, at));
    before = at;
  }
  return curve;
}

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

TEST(LearningCurve, ARisingCurveIsPredictedToRise) {
  int n_close = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Trainer trainer{.time_constant = 80, .seed = seed};
    const double gain = curve_of(trainer, {20, 30, 40, 50, 60}).predicted_gain(40);
    n_close += std::abs(gain - (trainer.level(100) - trainer.level(60))) < 0.03 ? 1 : 0;
  }
  EXPECT_GE(n_close, 17);
}

// Regression: the early draft on sql rises by .11 for each doubling and a half of its steps, up to 800 of them. A curve
// that was fitted to counted steps and took a draft of that acceptance for flat promised it .001 after 280.
TEST(LearningCurve, ALongRiseIsPredictedToGoOn) {
  const auto level = [](double steps) { return 0.11 * std::log1p(steps / 8); };
  LearningCurve curve(0.345);
  double before = 61;
  for (const double steps : {74, 91, 112, 137, 168, 202, 242, 281}) {
    curve.add({before, steps, {level(steps) - level(before), 0.01}});
    before = steps;
  }
  EXPECT_GT(curve.predicted_gain(40), 0.5 * (level(321) - level(281)));
}

// Measured on sql: a straight line through 26 steps that gained .37 predicted .43 more.
TEST(LearningCurve, ACurveThatBendsPromisesNoLine) {
  LearningCurve curve(0.01);
  curve.add({0, 5, {0.27, 0.02}});
  curve.add({5, 17, {0.06, 0.02}});
  curve.add({5, 27, {0.09, 0.02}});
  EXPECT_LT(curve.predicted_gain(40), 0.25);
  EXPECT_GT(curve.predicted_gain(40), 0.05);
}

// Measured on sql, a little later: the gain of the first steps does not repeat. The actual gain was .05.
TEST(LearningCurve, TheFirstRiseIsNotPromisedAgain) {
  LearningCurve curve(0.01);
  curve.add({0, 5, {0.27, 0.02}});
  curve.add({5, 17, {0.06, 0.02}});
  curve.add({17, 27, {0.03, 0.02}});
  curve.add({27, 46, {0.03, 0.02}});
  EXPECT_LT(curve.predicted_gain(40), 0.09);
  EXPECT_GT(curve.predicted_gain(40), 0.03);
}

// Measured on math with the early draft: the first export was worse than the base draft, the next ones rose.
TEST(LearningCurve, AnExportBelowTheBaseDraftDoesNotEndTraining) {
  LearningCurve curve(0.285);
  curve.add({0, 30, {-0.016, 0.013}});
  EXPECT_GT(curve.predicted_gain(40), 0.01);
  curve.add({0, 45, {-0.004, 0.010}});
  EXPECT_GT(curve.predicted_gain(40), 0.01);
}

TEST(LearningCurve, AFlatCurveComesToNothingWithTheData) {
  int n_flat = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Trainer trainer{.seed = seed};
    double before = 1;
    LearningCurve curve;
    for (int steps = 0; steps < 400; steps += 20) {
      if (steps == 100) before = curve.predicted_gain(40);
      curve.add(trainer.between(steps, steps + 20));
    }
    EXPECT_LT(curve.predicted_gain(40), before);
    n_flat += curve.predicted_gain(40) < 0.003 ? 1 : 0;
  }
  EXPECT_GE(n_flat, 14);
}

// A trainer that never learns costs a bounded number of steps: the prior fades within the first hundred.
TEST(LearningCurve, ATrainerThatNeverLearnsIsFoundOut) {
  Trainer trainer{.height = 0, .requests = 64};
  EXPECT_LT(curve_of(trainer, {20, 40, 60, 80, 100, 120, 140, 160}).predicted_gain(40), 0.006);
}

TEST(LearningCurve, UncertaintyHasAValueThatMoreRequestsTakeAway) {
  LearningCurve vague, sure;
  for (const double steps : {40, 80, 120}) {
    vague.add({steps, steps + 40, {0, 0.05}});
    sure.add({steps, steps + 40, {0, 0.005}});
  }
  EXPECT_GT(vague.rise(40).deviation, sure.rise(40).deviation);
  EXPECT_GT(vague.predicted_gain(40), sure.predicted_gain(40));
}

TEST(LearningCurve, AFallIsNoGain) {
  LearningCurve curve;
  for (const double steps : {40, 80, 120}) curve.add({steps, steps + 40, {-0.04, 0.004}});
  EXPECT_LT(curve.rise(40).mean, 0);
  EXPECT_GE(curve.predicted_gain(40), 0);
  EXPECT_LT(curve.predicted_gain(40), 1e-4);
}

TEST(LearningCurve, ATrainerThatStartsOverStartsANewCurve) {
  LearningCurve curve;
  for (const double steps : {200, 240, 280}) curve.add({steps, steps + 40, {0, 0.003}});
  EXPECT_LT(curve.predicted_gain(40), 0.01);
  curve.add({0, 5, {0, 0.1}});
  EXPECT_GT(curve.predicted_gain(40), 0.06);
  EXPECT_DOUBLE_EQ(curve.latest_steps(), 5);
}

TEST(LearningCurve, MeasurementsWithoutNumbersAreIgnored) {
  LearningCurve curve;
  curve.add({0, 20, {std::nan(""), 0.3}});
  curve.add({0, 20, {0.1, std::numeric_limits<double>::infinity()}});
  curve.add({0, 20, {0.1, 0}});
  EXPECT_TRUE(curve.empty());
}

}  // namespace
}  // namespace slip
