// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"

namespace slip {

// Multinomial logistic regression over hashed features: P(c | x) = softmax_c(Σ_{b ∈ x} w[b][c] / √|x|), where x is the
// set of a prompt's buckets; the root makes long and short prompts count alike. A plain value: equal states decide
// alike and learn alike, bit for bit, on one machine and build.
struct TopicClassifier {
  TopicClassifier() = default;
  explicit TopicClassifier(std::size_t n_topics);

  std::size_t n_topics = 0;
  std::uint64_t lessons = 0;   // labelled prompts learned from, seeds not counted
  std::vector<float> weights;  // [kFeatureBuckets, n_topics]

  friend bool operator==(const TopicClassifier&, const TopicClassifier&) = default;
};

// No weight can grow beyond it, see kDecay; what a file holds is checked against it.
inline constexpr float kMaxWeight = 20'000;

// [n_topics], adding up to 1; all alike for no features. REQUIRES: buckets < kFeatureBuckets.
std::vector<float> topic_probabilities(const TopicClassifier& classifier, std::span<const std::uint32_t> features);

struct TopicGuess {
  TopicId topic;         // 0 = unknown
  float confidence = 0;  // the most likely topic's probability, also where it was not enough
};
// The most likely topic, or "unknown" when its probability is below `min_confidence` or a tie.
TopicGuess decide_topic(std::span<const float> probabilities, double min_confidence);

// One step of stochastic gradient descent on −log P(topic | features), with a constant rate, since traffic never
// settles. REQUIRES: topic < n_topics.
void learn_topic(TopicClassifier& classifier, std::span<const std::uint32_t> features, TopicId topic);

}  // namespace slip
