// SPDX-License-Identifier: Apache-2.0
#include "router/topic_classifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "router/prompt_features.h"
#include "tests/router/sample_prompts.h"

namespace slip {
namespace {

const std::vector<std::uint32_t> kSome = {1, 7, 100, kFeatureBuckets - 1};

TEST(TopicClassifier, KnowsNothingAtFirst) {
  const TopicClassifier classifier(4);
  for (const float p : topic_probabilities(classifier, kSome)) EXPECT_FLOAT_EQ(p, 0.25F);
  for (const float p : topic_probabilities(classifier, {})) EXPECT_FLOAT_EQ(p, 0.25F);
}

// Two topics, four features: P = (1/2, 1/2), the step is rate · (1 − P) / √4 = 2 · 0.5 / 2 a weight, so the score moves
// by 4 · 0.5 / √4 = 1 each way, and P(first) = e / (e + 1/e).
TEST(TopicClassifier, OneLessonByHand) {
  TopicClassifier classifier(2);
  learn_topic(classifier, kSome, {0});
  EXPECT_FLOAT_EQ(classifier.weights[7 * 2], 0.5F);
  EXPECT_FLOAT_EQ(classifier.weights[7 * 2 + 1], -0.5F);
  EXPECT_FLOAT_EQ(classifier.weights[8 * 2], 0.0F);
  const double e = std::exp(1.0);
  EXPECT_NEAR(topic_probabilities(classifier, kSome)[0], e / (e + 1 / e), 1e-6);
}

TEST(TopicClassifier, DecidesOnlyWhenSure) {
  const auto decide = [](std::vector<float> p, double least) { return decide_topic(p, least); };
  EXPECT_EQ(decide({0.1F, 0.6F, 0.3F}, 0.5), TopicId{1});
  EXPECT_EQ(decide({0.1F, 0.6F, 0.3F}, 0.61), TopicId{0});
  EXPECT_EQ(decide({0.2F, 0.4F, 0.4F}, 0.0), TopicId{0}) << "a tie is no decision";
  EXPECT_EQ(decide({0.9F, 0.1F}, 0.5), TopicId{0});
  EXPECT_EQ(decide({1.0F}, 0.5), TopicId{0});
  EXPECT_EQ(decide({0.0F, 1.0F}, 1.0), TopicId{1});
}

TEST(TopicClassifier, WithoutFeaturesNothingIsLearned) {
  TopicClassifier classifier(3);
  learn_topic(classifier, {}, {1});
  EXPECT_EQ(classifier, TopicClassifier(3));
}

TEST(TopicClassifier, EqualLessonsGiveEqualStates) {
  TopicClassifier one(4), other(4), reversed(4);
  const auto prompts = sample_prompts(200, /*seed=*/3);
  for (const auto& prompt : prompts) learn_topic(one, prompt_features(prompt.text), prompt.topic);
  for (const auto& prompt : prompts) learn_topic(other, prompt_features(prompt.text), prompt.topic);
  for (auto prompt = prompts.rbegin(); prompt != prompts.rend(); ++prompt) {
    learn_topic(reversed, prompt_features(prompt->text), prompt->topic);
  }
  EXPECT_EQ(one, other);
  EXPECT_FALSE(one == reversed) << "the order of lessons matters, or this compares nothing";
}

double accuracy_after(const std::vector<SamplePrompt>& lessons) {
  TopicClassifier classifier(4);
  for (const auto& lesson : lessons) learn_topic(classifier, prompt_features(lesson.text), lesson.topic);
  int right = 0;
  const auto asked = sample_prompts(800, /*seed=*/99);
  for (const auto& prompt : asked) {
    const auto p = topic_probabilities(classifier, prompt_features(prompt.text));
    right += std::max_element(p.begin(), p.end()) - p.begin() == prompt.topic.value ? 1 : 0;
  }
  return right / 800.0;
}

TEST(TopicClassifier, LearnsTopicsFromPromptsItWillNotSeeAgain) {
  EXPECT_GE(accuracy_after(sample_prompts(400, /*seed=*/1)), 0.95);
}

// Nothing is learned from labels dealt at random: chance is 1 in 4. Prompts of one topic are alike, so the 800 verdicts
// are not independent, and a single deal strays further than a binomial would; the mean over deals does not.
TEST(TopicClassifier, NegativeShuffledLabelsGiveChance) {
  constexpr int kDeals = 12;
  double sum = 0;
  for (std::uint64_t deal = 0; deal < kDeals; ++deal) {
    auto lessons = sample_prompts(400, /*seed=*/1);
    std::mt19937_64 random(deal);
    for (std::size_t i = lessons.size() - 1; i > 0; --i) std::swap(lessons[i].topic, lessons[random() % (i + 1)].topic);
    sum += accuracy_after(lessons);
  }
  EXPECT_NEAR(sum / kDeals, 0.25, 0.1);
}

// The same prompt under contradicting labels for ever: weights stay far below the bound that files are checked against.
TEST(TopicClassifier, WeightsStayBounded) {
  TopicClassifier classifier(3);
  for (std::uint32_t i = 0; i < 20'000; ++i) learn_topic(classifier, kSome, {i / 64 % 3});
  for (std::uint32_t i = 0; i < 20'000; ++i) learn_topic(classifier, std::vector<std::uint32_t>{5}, {1});
  for (const float weight : classifier.weights) ASSERT_LE(std::abs(weight), kMaxWeight);
  for (const float p : topic_probabilities(classifier, kSome)) EXPECT_TRUE(std::isfinite(p));
}

TEST(TopicClassifier, TheLargestWeightsAFileMayHoldGiveProbabilities) {
  TopicClassifier classifier(2);
  std::vector<std::uint32_t> all(kFeatureBuckets);
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  for (std::size_t i = 0; i < classifier.weights.size(); ++i)
    classifier.weights[i] = i % 2 == 0 ? kMaxWeight : -kMaxWeight;
  const auto p = topic_probabilities(classifier, all);
  EXPECT_FLOAT_EQ(p[0], 1.0F);
  EXPECT_FLOAT_EQ(p[1], 0.0F);
}

}  // namespace
}  // namespace slip
