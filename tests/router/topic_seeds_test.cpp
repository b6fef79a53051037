// SPDX-License-Identifier: Apache-2.0
#include "router/topic_seeds.h"

#include <gtest/gtest.h>

#include "router/prompt_features.h"
#include "tests/router/sample_prompts.h"

namespace slip {
namespace {

TEST(TopicSeeds, TopicsTakeTurnsAndShortListsRepeat) {
  const TopicTable table({{"a", {}, {"one", "two", "three"}}, {"b", {}, {"four"}}, {"c", {}, {}}});
  std::string order;
  for (const TopicExample& example : examples_in_turn(table)) order += std::to_string(example.topic.value);
  EXPECT_EQ(order, "121212");
  EXPECT_EQ(examples_in_turn(table)[3].features, prompt_features("four"));
  EXPECT_EQ(examples_in_turn(table)[4].features, prompt_features("three"));
}

TEST(TopicSeeds, WithoutExamplesNothingIsKnown) {
  const TopicTable table({{"a", {}, {}}, {"b", {}, {}}});
  EXPECT_TRUE(examples_in_turn(table).empty());
  EXPECT_EQ(seeded_classifier(table), TopicClassifier(3));
}

TEST(TopicSeeds, TheExamplesThemselvesAreKnown) {
  const TopicTable table = sample_topics(6);
  const TopicClassifier classifier = seeded_classifier(table);
  EXPECT_EQ(classifier, seeded_classifier(table));
  EXPECT_EQ(classifier.lessons, 0U);
  for (const TopicExample& example : examples_in_turn(table)) {
    EXPECT_EQ(decide_topic(topic_probabilities(classifier, example.features), 0.5), example.topic);
  }
}

TEST(TopicSeeds, ANewTopicLeavesWhatOthersLearned) {
  const TopicTable before({{"bread", {}, {"bake a loaf"}}, {"music", {}, {"play a chord"}}});
  TopicClassifier learned = seeded_classifier(before);
  const auto unusual = prompt_features("xylophone quartet");
  for (int i = 0; i < 20; ++i) learn_topic(learned, unusual, {2});
  learned.lessons = 20;
  const TopicTable after(
      {{"alps", {}, {"climb the ridge"}}, {"music", {}, {"play a chord"}}, {"bread", {}, {"bake a loaf"}}});
  const TopicClassifier now = reseeded_classifier(after, learned, {"unknown", "bread", "music"});
  const auto found = [&](std::string_view text) {
    return after[decide_topic(topic_probabilities(now, prompt_features(text)), 0.5)].name;
  };
  EXPECT_EQ(found("xylophone quartet"), "music") << "columns move with their names";
  EXPECT_EQ(found("climb the ridge"), "alps");
  EXPECT_EQ(now.lessons, 20U);
}

TEST(TopicSeeds, FingerprintsTellTopicsAndExamplesApart) {
  const auto of = [](std::vector<Topic> topics) { return seeds_fingerprint(TopicTable(std::move(topics))); };
  const auto one = of({{"a", {}, {"xy", "z"}}});
  EXPECT_EQ(one, of({{"a", {"alias"}, {"xy", "z"}}})) << "labels do not concern the classifier";
  EXPECT_NE(one, of({{"a", {}, {"x", "yz"}}}));
  EXPECT_NE(one, of({{"a", {}, {"z", "xy"}}}));
  EXPECT_NE(one, of({{"b", {}, {"xy", "z"}}}));
  EXPECT_NE(one, of({{"a", {}, {"xy"}}, {"z", {}, {}}}));
  EXPECT_EQ(of({}), 11714675094409961911ULL) << "stored states of older builds stay usable";
}

}  // namespace
}  // namespace slip
