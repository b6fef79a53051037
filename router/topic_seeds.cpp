// SPDX-License-Identifier: Apache-2.0
#include "router/topic_seeds.h"

#include <algorithm>
#include <string_view>

#include "common/error.h"
#include "router/prompt_features.h"

namespace slip {
namespace {

constexpr int kPasses = 10;  // enough to classify the examples themselves with high confidence

void go_over_examples(TopicClassifier& classifier, const TopicTable& topics) {
  const auto examples = examples_in_turn(topics);
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const TopicExample& example : examples) learn_topic(classifier, example.features, example.topic);
  }
}

}  // namespace

std::vector<TopicExample> examples_in_turn(const TopicTable& topics) {
  std::vector<std::vector<std::vector<std::uint32_t>>> features(topics.size());  // [topics][examples]
  std::size_t most = 0;
  for (std::uint32_t i = 0; i < topics.size(); ++i) {
    for (const std::string& example : topics[{i}].examples) features[i].push_back(prompt_features(example));
    most = std::max(most, features[i].size());
  }
  std::vector<TopicExample> examples;
  for (std::size_t turn = 0; turn < most; ++turn) {
    for (std::uint32_t i = 0; i < topics.size(); ++i) {
      if (!features[i].empty()) examples.push_back({{i}, features[i][turn % features[i].size()]});
    }
  }
  return examples;
}

TopicClassifier seeded_classifier(const TopicTable& topics) {
  TopicClassifier classifier(topics.size());
  go_over_examples(classifier, topics);
  return classifier;
}

TopicClassifier reseeded_classifier(const TopicTable& topics, const TopicClassifier& before,
                                    const std::vector<std::string>& names) {
  SLIP_CHECK(before.n_topics == names.size(), "a state has a name for each of its columns");
  TopicClassifier classifier(topics.size());
  classifier.lessons = before.lessons;
  for (std::uint32_t i = 0; i < topics.size(); ++i) {
    const auto found = std::find(names.begin(), names.end(), topics[{i}].name);
    if (found == names.end()) continue;
    const auto column = static_cast<std::size_t>(found - names.begin());
    for (std::size_t bucket = 0; bucket < kFeatureBuckets; ++bucket) {
      classifier.weights[bucket * classifier.n_topics + i] = before.weights[bucket * before.n_topics + column];
    }
  }
  go_over_examples(classifier, topics);
  return classifier;
}

std::uint64_t seeds_fingerprint(const TopicTable& topics) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  const auto add = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    hash = (hash ^ 0xFFU) * 1099511628211ULL;  // no byte of UTF-8: "ab", "c" is not "a", "bc"
  };
  for (std::uint32_t i = 0; i < topics.size(); ++i) {
    add(topics[{i}].name);
    for (const std::string& example : topics[{i}].examples) add(example);
    add("");
  }
  return hash;
}

}  // namespace slip
