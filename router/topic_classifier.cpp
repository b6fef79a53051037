// SPDX-License-Identifier: Apache-2.0
#include "router/topic_classifier.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "router/prompt_features.h"

namespace slip {
namespace {

// The learning rate. Features have length 1 after division by √|x|, so a step changes the prompt's own score by this
// times its error.
constexpr float kRate = 2.0F;
// Weight decay of the weights that a step touches. With |error| ≤ 1 and |x| ≥ 1 no weight can exceed kRate / kDecay.
constexpr float kDecay = 1e-4F;
static_assert(kMaxWeight >= kRate / kDecay);

}  // namespace

TopicClassifier::TopicClassifier(std::size_t topics) : n_topics(topics), weights(kFeatureBuckets * topics) {}

std::vector<float> topic_probabilities(const TopicClassifier& classifier, std::span<const std::uint32_t> features) {
  const std::size_t n = classifier.n_topics;
  std::vector<float> scores(n);
  for (const std::uint32_t bucket : features) {
    const float* row = classifier.weights.data() + bucket * n;
    for (std::size_t topic = 0; topic < n; ++topic) scores[topic] += row[topic];
  }
  const float scale = 1.0F / std::sqrt(static_cast<float>(std::max<std::size_t>(1, features.size())));
  const float best = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& score : scores) sum += score = std::exp((score - best) * scale);
  for (float& score : scores) score /= sum;
  return scores;
}

TopicId decide_topic(std::span<const float> probabilities, double min_confidence) {
  const auto best = std::max_element(probabilities.begin(), probabilities.end());
  const bool tied = std::count(probabilities.begin(), probabilities.end(), *best) > 1;
  const bool sure = static_cast<double>(*best) >= min_confidence && !tied;
  return {sure ? static_cast<std::uint32_t>(best - probabilities.begin()) : 0U};
}

void learn_topic(TopicClassifier& classifier, std::span<const std::uint32_t> features, TopicId topic) {
  SLIP_CHECK(topic.value < classifier.n_topics, "a topic of another table");
  if (features.empty()) return;
  const std::size_t n = classifier.n_topics;
  std::vector<float> step = topic_probabilities(classifier, features);
  const float scale = kRate / std::sqrt(static_cast<float>(features.size()));
  for (std::size_t i = 0; i < n; ++i) step[i] = scale * ((i == topic.value ? 1.0F : 0.0F) - step[i]);
  for (const std::uint32_t bucket : features) {
    float* row = classifier.weights.data() + bucket * n;
    for (std::size_t i = 0; i < n; ++i) row[i] += step[i] - kDecay * row[i];
  }
}

}  // namespace slip
