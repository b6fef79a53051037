// SPDX-License-Identifier: Apache-2.0
#include "router/router.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "router/prompt_features.h"
#include "tests/router/sample_prompts.h"

namespace slip {
namespace {

const TopicId kUnknown{0}, kBread{1}, kMusic{2}, kAlps{3};

Router seeded(RouterOptions options = {}, std::size_t examples_each = 12) {
  const TopicTable topics = sample_topics(examples_each);
  return {topics, options, seeded_classifier(topics)};
}

double accuracy(const Router& router) {
  int right = 0;
  const auto asked = sample_prompts(400, /*seed=*/99);
  for (const auto& prompt : asked) right += router.route(std::nullopt, prompt.text).topic == prompt.topic ? 1 : 0;
  return right / 400.0;
}

TEST(Router, ALabelWinsOverTheText) {
  const Router router = seeded();
  const std::string text = "violin sonata melody choir";
  const Route inferred = router.route(std::nullopt, text), named = router.route("loaf-of-bread", text);
  EXPECT_EQ(inferred.topic, kMusic);
  EXPECT_EQ(inferred.source, TopicSource::kInferred);
  EXPECT_EQ(named.topic, kBread);
  EXPECT_EQ(named.source, TopicSource::kLabel);
  EXPECT_EQ(router.route("unknown", text).topic, kUnknown);
  EXPECT_EQ(router.route("unknown", text).source, TopicSource::kLabel);
}

TEST(Router, AliasesMayChangeWhileItRoutes) {
  Router router = seeded();
  EXPECT_NE(router.route("toast", "").source, TopicSource::kLabel);
  router.set_topics(TopicTable({{"bread", {"toast"}, {}}, {"music", {}, {}}, {"alps", {}, {}}}));
  EXPECT_EQ(router.route("toast", "").topic, kBread);
  EXPECT_EQ(router.route("toast", "").source, TopicSource::kLabel);
  EXPECT_EQ(router.route(std::nullopt, "violin sonata melody choir").topic, kMusic) << "what it learned stays";
}

// Other examples than the start's did nothing until the next one.
TEST(Router, ExamplesMayChangeWhileItRoutes) {
  Router router = seeded();
  for (const auto& prompt : sample_prompts(40, /*seed=*/3)) router.learn(prompt.topic, prompt.text);
  const TopicClassifier before = router.copy();
  EXPECT_EQ(router.route(std::nullopt, "zarquon wibble").topic, kUnknown);
  const TopicTable next({{"bread", {}, {"zarquon wibble"}}, {"music", {}, {"violin choir"}}, {"alps", {}, {"summit"}}});
  router.set_topics(next);
  EXPECT_EQ(router.route(std::nullopt, "zarquon wibble").topic, kBread);
  EXPECT_EQ(router.lessons(), 40U);
  EXPECT_EQ(router.copy(), reseeded_classifier(next, before, {"unknown", "bread", "music", "alps"})) << "as a restart";
  Router restarted(next, {}, router.copy());
  for (Router* one : {&router, &restarted}) one->learn(kAlps, "a hut");
  EXPECT_EQ(router.copy(), restarted.copy()) << "and the examples that are gone over again are the new ones";
}

TEST(Router, WhatIsSavedBelongsToTheTopicsItIsSavedWith) {
  Router router = seeded();
  const TopicTable tables[2] = {TopicTable({{"bread", {}, {"zarquon"}}, {"music", {}, {}}, {"alps", {}, {}}}),
                                TopicTable({{"bread", {}, {"wibble"}}, {"music", {}, {}}, {"alps", {}, {}}})};
  const std::string examples[2] = {"zarquon", "wibble"};
  std::atomic<bool> done{false};
  std::jthread reloader([&] {
    for (int i = 0; i < 40; ++i) router.set_topics(tables[i % 2]);
    done = true;
  });
  const auto n_classes = router.topics()->size();
  while (!done) {
    const Router::Snapshot now = router.snapshot();
    ASSERT_EQ(now.classifier.n_topics, n_classes);
    const auto& given = (*now.topics)[kBread].examples;
    if (given.size() != 1) continue;
    EXPECT_EQ(decide_topic(topic_probabilities(now.classifier, prompt_features(given[0])), 0.5), kBread);
  }
}

TEST(Router, LearningMayBeSwitchedWhileItRoutes) {
  Router router = seeded();
  router.set_learning(false);
  router.learn(kMusic, "violin");
  EXPECT_EQ(router.lessons(), 0U);
  router.set_learning(true);
  router.learn(kMusic, "violin");
  EXPECT_EQ(router.lessons(), 1U);
}

TEST(Router, ALabelThatNamesNoTopicIsReadAsText) {
  const Router router = seeded();
  EXPECT_EQ(router.route(std::nullopt, "what is it about").source, TopicSource::kNone);
  EXPECT_EQ(router.route("glacier-ridge-summit-peak-trail-valley", "what is it about").topic, kAlps);
  EXPECT_EQ(router.route("no-such-thing", "violin sonata melody choir").topic, kMusic);
}

TEST(Router, WhatIsLikeNothingIsUnknown) {
  const Router router = seeded();
  for (const char* text : {"", " \n", "zzz", "12", "\xFF\xFE"}) {
    const Route route = router.route(std::nullopt, text);
    EXPECT_EQ(route.topic, kUnknown) << text;
    EXPECT_EQ(route.source, TopicSource::kNone) << text;
  }
}

TEST(Router, FindsTopicsFromExamplesAloneAndBetterAfterLessons) {
  Router router = seeded({}, /*examples_each=*/3);
  const double before = accuracy(router);
  for (const auto& prompt : sample_prompts(400, /*seed=*/1)) router.learn(prompt.topic, prompt.text);
  EXPECT_GE(before, 0.5);
  EXPECT_GE(accuracy(router), 0.97);
  EXPECT_GT(accuracy(router), before);
  EXPECT_EQ(router.lessons(), 400U);
}

TEST(Router, OptionsTurnItOff) {
  const std::string text = "violin sonata melody choir";
  Router off = seeded({.classify = false});
  EXPECT_EQ(off.route(std::nullopt, text).topic, kUnknown);
  EXPECT_EQ(off.route(std::nullopt, text).source, TopicSource::kNone);
  EXPECT_EQ(off.route("bread", text).topic, kBread);
  off.learn(kMusic, text);
  EXPECT_EQ(off.lessons(), 0U);
  Router frozen = seeded({.learn = false});
  const TopicClassifier before = frozen.copy();
  frozen.learn(kAlps, text);
  EXPECT_EQ(frozen.copy(), before);
  EXPECT_EQ(frozen.route(std::nullopt, text).topic, kMusic);
  EXPECT_EQ(seeded({.min_confidence = 1.0}).route(std::nullopt, text).topic, kUnknown);
}

TEST(Router, AnEmptyPromptIsNotLearnedFrom) {
  Router router = seeded();
  router.learn(kMusic, " \n");
  EXPECT_EQ(router.lessons(), 0U);
}

// 2,000 requests of one topic, and nothing else labelled: going over the examples keeps the others. Without it, what
// all topics share ("please", "with") drifts to the one that is learned.
TEST(Router, OneSidedTrafficDoesNotWashOutTheOthers) {
  Router router = seeded();
  TopicClassifier bare = router.copy();
  for (const auto& prompt : sample_prompts(8000, /*seed=*/5)) {
    if (prompt.topic != kBread) continue;
    router.learn(prompt.topic, prompt.text);
    learn_topic(bare, prompt_features(prompt.text), prompt.topic);
  }
  const Router without(sample_topics(12), {}, bare);
  EXPECT_GE(accuracy(router), 0.9);
  EXPECT_GT(accuracy(router), accuracy(without)) << "or the examples need not be gone over";
}

TEST(Router, EqualHistoriesRouteAlike) {
  Router one = seeded(), other = seeded();
  for (const auto& prompt : sample_prompts(100, /*seed=*/2)) {
    one.learn(prompt.topic, prompt.text);
    other.learn(prompt.topic, prompt.text);
  }
  EXPECT_EQ(one.copy(), other.copy());
  for (const auto& prompt : sample_prompts(100, /*seed=*/98)) {
    EXPECT_EQ(one.route(std::nullopt, prompt.text).topic, other.route(std::nullopt, prompt.text).topic);
  }
}

TEST(Router, ThreadsMayRouteAndLearnAtOnce) {
  Router router = seeded();
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&router, t] {
        for (const auto& prompt : sample_prompts(100, t)) {
          router.learn(prompt.topic, prompt.text);
          router.route(std::nullopt, prompt.text);
          if (t == 0) router.copy();
        }
      });
    }
  }
  EXPECT_EQ(router.lessons(), 400U);
  EXPECT_GE(accuracy(router), 0.95);
}

}  // namespace
}  // namespace slip
