// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"

namespace slip {

// Multinomial logistic regression over hashed features: P(c | x) = softmax_c(Σ_{b ∈ x} w[b][c] / √|x|), where x is the
// set of a prompt's buckets. The root gives long and short prompts equal influence. A plain value: equal states
// classify and learn bit for bit alike on one machine and build.
struct TopicClassifier {
  TopicClassifier() = default;
  explicit TopicClassifier(std::size_t n_topics);

  std::size_t n_topics = 0;
  std::uint64_t lessons = 0;   // labelled prompts, without the topics' examples
  std::vector<float> weights;  // [kFeatureBuckets, n_topics]

  friend bool operator==(const TopicClassifier&, const TopicClassifier&) = default;
};

// Upper bound of any weight (see kDecay); weights read from a file are checked against it.
inline constexpr float kMaxWeight = 20'000;

// [n_topics], summing to 1; uniform without features. REQUIRES: buckets < kFeatureBuckets.
std::vector<float> topic_probabilities(const TopicClassifier& classifier, std::span<const std::uint32_t> features);

// The most likely topic, or 0, "unknown", if its probability is below `min_confidence` or tied.
TopicId decide_topic(std::span<const float> probabilities, double min_confidence);

// One step of stochastic gradient descent on −log P(topic | features), with a constant rate since traffic keeps
// changing. REQUIRES: topic < n_topics.
void learn_topic(TopicClassifier& classifier, std::span<const std::uint32_t> features, TopicId topic);

}  // namespace slip
