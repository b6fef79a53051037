// SPDX-License-Identifier: Apache-2.0
#include "distill/training_payback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace slip {
namespace {

// A topic whose trainer's α rises to `height` above the base draft's and stays there; each export is published at once.
struct Topic {
  double height = 0.15, step_share = 0.5, step_seconds = 0.085, time_constant = 40;
  LearningCurve curve{};
  TopicPause pause = {};
  TopicProgress progress = {};

  double alpha(double steps) const { return 0.3 + height * (1 - std::exp(-steps / time_constant)); }
  StepDecision ask(const PaybackTerms& terms) {
    progress.curve = &curve;
    progress.step_share = step_share;
    progress.step_seconds = step_seconds;
    return decide_training(progress, terms, pause);
  }
  // Requests up to `n` steps and takes those that are allowed; every 20 steps an export is measured on 200 requests.
  std::uint64_t train(int n, const PaybackTerms& terms) {
    const std::uint64_t before = progress.steps_done;
    for (int i = 0; i < n; ++i) {
      if (progress.steps_done % 20 == 0) measure();
      if (!ask(terms).allowed) continue;
      ++progress.steps_done;
    }
    return progress.steps_done - before;
  }
  void measure() {
    const auto steps = static_cast<double>(progress.steps_done);
    const double before = curve.latest_steps();
    if (steps > before) curve.add({before, steps, {alpha(steps) - alpha(before), 0.003}});
    progress.alpha_live = alpha(steps);
  }
};

const PaybackTerms kBusy{.payback_s = 600, .steps_per_request = 64, .lease_cost = 0.24};
const PaybackTerms kIdle{.payback_s = 600, .steps_per_request = 64, .lease_cost = 0};

TEST(TrainingPayback, RisesThenFlatStops) {
  Topic topic;
  topic.progress.answers_seen = 1000;
  const std::uint64_t steps = topic.train(2000, kBusy);
  EXPECT_GE(steps, 80U) << "most of the rise lies within 80 steps";
  EXPECT_LE(steps, 400U);
  EXPECT_EQ(topic.train(2000, kBusy), 0U) << "nothing new has come";
  EXPECT_FALSE(topic.ask(kBusy).allowed);
}

TEST(TrainingPayback, NegativeACurveThatKeepsRisingIsNotStopped) {
  Topic topic{.height = 0.6, .time_constant = 1500};
  topic.progress.answers_seen = 1000;
  EXPECT_EQ(topic.train(1000, kBusy), 1000U);
}

TEST(TrainingPayback, FlatStopsOnIdleCoresToo) {
  Topic topic;
  topic.progress.answers_seen = 1000;
  EXPECT_LE(topic.train(4000, kIdle), 500U);
  EXPECT_EQ(topic.train(1000, kIdle), 0U);
  EXPECT_STREQ(topic.ask(kIdle).reason, "the curve is flat");
}

TEST(TrainingPayback, LooksAgainAfterMoreRequestsAtGrowingIntervals) {
  Topic topic;
  topic.progress.answers_seen = 1000;
  topic.train(2000, kBusy);
  std::vector<std::uint64_t> waits;
  std::uint64_t since = topic.progress.answers_seen;
  for (int i = 0; i < 2000 && waits.size() < 4; ++i) {
    ++topic.progress.answers_seen;
    const std::uint64_t steps = topic.train(100, kBusy);
    if (steps == 0) continue;
    EXPECT_LE(steps, 60U) << "a trial is an export or so, no more";
    waits.push_back(topic.progress.answers_seen - since);
    since = topic.progress.answers_seen;
  }
  ASSERT_EQ(waits.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(static_cast<double>(waits[i]), 64.0 * (1U << i), 1);
}

// Regression: a topic that began again after 128 requests did 246 steps at once, none of them measured.
TEST(TrainingPayback, AfterAPauseItDoesNotCatchUp) {
  PaybackTerms terms = kIdle;
  terms.steps_per_request = 2;
  Topic topic{.height = 0};
  topic.progress.answers_seen = 500;
  topic.train(1000, terms);
  topic.progress.answers_seen += 64;
  std::uint64_t at_once = 0;
  while (topic.ask(terms).allowed) {  // nothing is measured meanwhile
    ++topic.progress.steps_done;
    ++at_once;
  }
  EXPECT_EQ(at_once, 20U);
}

// Neither the steps taken in idle time nor the requests of the pause change the number of steps of a trial.
TEST(TrainingPayback, ATrialOfABusyTopicTakesItsOwnStepsAndNoMore) {
  PaybackTerms idle = kIdle;
  idle.steps_per_request = 2;
  idle.busy_steps_per_request = 0.375;
  PaybackTerms busy = idle;
  busy.busy = true;
  Topic topic{.height = 0};
  topic.progress.answers_seen = 500;
  topic.train(1000, idle);
  topic.progress.answers_seen += 64;
  std::uint64_t at_once = 0;
  for (; topic.ask(busy).allowed; ++at_once) ++topic.progress.steps_done;  // nothing is measured meanwhile
  EXPECT_EQ(at_once, 20U);
}

TEST(TrainingPayback, ResumesWhenTheLiveDraftsAcceptanceFalls) {
  Topic topic;
  topic.progress.answers_seen = 1000;
  topic.train(2000, kBusy);
  topic.progress.alpha_live -= 0.12;
  EXPECT_FALSE(topic.ask(kBusy).allowed) << "within what α varies by itself";
  topic.progress.alpha_live -= 0.05;
  EXPECT_TRUE(topic.ask(kBusy).allowed);
}

TEST(TrainingPayback, AFallAmongTheFirstRequestsMeansNothing) {
  Topic topic;
  topic.curve = LearningCurve(0.95);
  topic.progress.answers_seen = 9;
  topic.progress.alpha_live = 0.9;
  EXPECT_FALSE(topic.ask(kBusy).allowed);
  topic.progress.answers_seen = 10;
  topic.progress.alpha_live = 0.6;
  EXPECT_FALSE(topic.ask(kBusy).allowed);
  topic.progress.answers_seen = 50;
  EXPECT_FALSE(topic.ask(kBusy).allowed);
}

TEST(TrainingPayback, ATopicWithLittleTrafficIsTrainedLess) {
  Topic large{.step_share = 0.6}, small{.step_share = 0.05};
  large.progress.answers_seen = small.progress.answers_seen = 1000;
  const std::uint64_t steps_of_large = large.train(2000, kBusy), steps_of_small = small.train(2000, kBusy);
  EXPECT_LT(steps_of_small, steps_of_large);
  EXPECT_GE(steps_of_small, 20U) << "its first steps do pay";
}

TEST(TrainingPayback, WhatDoesNotPayWhileBusyMayRunOnIdleCores) {
  Topic topic{.step_share = 0.0005};
  topic.progress.answers_seen = 1000;
  topic.measure();
  EXPECT_STREQ(topic.ask(kBusy).reason, "the gain would not pay back");
  EXPECT_TRUE(topic.ask(kIdle).allowed);
}

// If each further row costs as much as a step with one row, a better draft saves nothing.
TEST(TrainingPayback, NoTrainingWhereVerifyingCostsWhatItSaves) {
  PaybackTerms terms = kBusy;
  terms.decode.per_token.fill(10'000);
  Topic topic;
  topic.progress.answers_seen = 1000;
  topic.measure();
  EXPECT_FALSE(topic.ask(terms).allowed);
  topic.progress.answers_seen = 100'000;
  EXPECT_FALSE(topic.ask(terms).allowed) << "not as a trial either";
  terms.lease_cost = 0;
  EXPECT_TRUE(topic.ask(terms).allowed) << "idle cores cost nothing";
}

// Training that pays only once α is high: 40 steps do not pay back, 160 do.
TEST(TrainingPayback, LooksFarEnoughAhead) {
  PaybackTerms terms = kBusy;
  for (std::size_t i = 0; i < DecodeTime::kPoints; ++i) {
    terms.decode.per_token[i] = i <= 3 ? 1 : 1 / accepted_length(3, static_cast<double>(i) / 10);
  }
  TopicPause pause;
  TopicProgress progress{.answers_seen = 1000};
  const LearningCurve curve(0);
  progress.curve = &curve;
  EXPECT_TRUE(decide_training(progress, terms, pause).allowed);
}

TEST(TrainingPayback, StepsPerRequestBoundsThem) {
  Topic topic;
  topic.progress.answers_seen = 10;
  PaybackTerms terms = kIdle;
  terms.steps_per_request = 0.5;
  EXPECT_EQ(topic.train(100, terms), 5U);
  topic.progress.answers_seen = 100;
  EXPECT_EQ(topic.train(100, terms), 45U);
  EXPECT_STREQ(topic.ask(terms).reason, "waits for requests");
}

TEST(TrainingPayback, NoCurveIsAFreshOne) {
  TopicPause pause;
  const StepDecision decision = decide_training({.answers_seen = 8}, kBusy, pause);
  EXPECT_TRUE(decision.allowed);
  EXPECT_GE(decision.predicted_gain, 0.08);
}

}  // namespace
}  // namespace slip
