// SPDX-License-Identifier: Apache-2.0
#include "router/router.h"

#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "router/prompt_features.h"

namespace slip {
namespace {

std::vector<std::string> names_of(const TopicTable& topics) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < topics.size(); ++i) names.push_back(topics[{i}].name);
  return names;
}

}  // namespace

Router::Router(TopicTable topics, RouterOptions options, TopicClassifier classifier)
    : topics_(std::make_shared<const TopicTable>(std::move(topics))),
      options_(options),
      learns_(options.learn),
      examples_(examples_in_turn(*this->topics())),
      classifier_(std::move(classifier)) {
  SLIP_CHECK(classifier_.n_topics == this->topics()->size(), "the classifier was made for another table");
}

void Router::set_topics(TopicTable topics) {
  const auto now = this->topics();
  SLIP_CHECK(topics.size() == now->size(), "a draft and a column of the classifier belong to each topic");
  const auto next = std::make_shared<const TopicTable>(std::move(topics));
  if (seeds_fingerprint(*next) == seeds_fingerprint(*now)) {
    const std::lock_guard lock(mutex_);
    topics_.store(next, std::memory_order_release);
    return;
  }
  // Outside the lock: a large examples file takes seconds.
  auto examples = examples_in_turn(*next);
  auto reseeded = reseeded_classifier(*next, copy(), names_of(*next));
  const std::lock_guard lock(mutex_);
  // The count never decreases: the saver compares it to see whether there is something to save
  reseeded.lessons = classifier_.lessons;
  classifier_ = std::move(reseeded);
  examples_ = std::move(examples);
  topics_.store(next, std::memory_order_release);
}

Route Router::route(std::optional<std::string_view> label, std::string_view text) const {
  if (const auto named = topics()->find(label)) return {*named, TopicSource::kLabel};
  if (!options_.classify) return {};
  const auto features = prompt_features(label.value_or(std::string_view()), text);
  std::vector<float> probabilities;
  {
    const std::lock_guard lock(mutex_);
    probabilities = topic_probabilities(classifier_, features);
  }
  const TopicId topic = decide_topic(probabilities, options_.min_confidence);
  return {topic, topic == TopicId{0} ? TopicSource::kNone : TopicSource::kInferred};
}

void Router::learn(TopicId topic, std::string_view text) {
  if (!options_.classify || !learns_.load(std::memory_order_relaxed)) return;
  const auto features = prompt_features(text);
  if (features.empty()) return;
  const std::lock_guard lock(mutex_);
  learn_topic(classifier_, features, topic);
  if (!examples_.empty()) {
    const TopicExample& again = examples_[classifier_.lessons % examples_.size()];
    learn_topic(classifier_, again.features, again.topic);
  }
  ++classifier_.lessons;
}

Router::Snapshot Router::snapshot() const {
  const std::lock_guard lock(mutex_);
  return {topics(), classifier_};
}

std::uint64_t Router::lessons() const {
  const std::lock_guard lock(mutex_);
  return classifier_.lessons;
}

}  // namespace slip
