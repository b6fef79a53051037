// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "router/topic.h"

namespace slip {

struct SamplePrompt {
  TopicId topic;
  std::string text;
};

// `n` prompts of four invented topics, ids 0 to 3 in turn. Each has six words: four drawn from the topic's own ten
// words, and two from ten words that all topics share. Equal arguments give equal prompts.
inline std::vector<SamplePrompt> sample_prompts(std::size_t n, std::uint64_t seed) {
  using Words = std::array<std::string_view, 10>;
  static constexpr std::array<Words, 5> kWords = {
      Words{"boat", "tide", "harbour", "anchor", "sail", "mast", "rope", "buoy", "keel", "gull"},
      Words{"oven", "flour", "yeast", "crust", "dough", "butter", "salt", "bake", "loaf", "knead"},
      Words{"violin", "tempo", "chord", "opera", "choir", "sonata", "drum", "melody", "flute", "encore"},
      Words{"glacier", "ridge", "summit", "crevasse", "valley", "slope", "avalanche", "hut", "trail", "peak"},
      Words{"the", "and", "with", "for", "about", "my", "please", "what", "a", "is"}};
  std::mt19937_64 random(seed);
  std::vector<SamplePrompt> prompts;
  for (std::size_t i = 0; i < n; ++i) {
    SamplePrompt prompt{{static_cast<std::uint32_t>(i % 4)}, {}};
    for (int word = 0; word < 6; ++word) {
      const Words& from = kWords[word % 3 == 2 ? 4 : prompt.topic.value];
      prompt.text += std::string(word > 0 ? " " : "") + std::string(from[random() % from.size()]);
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

// The same four topics as a table, each with `examples_each` examples. Id 0 is "unknown", which has examples too.
inline TopicTable sample_topics(std::size_t examples_each) {
  std::vector<Topic> topics = {{"unknown", {}, {}}, {"bread", {"loaf*"}, {}}, {"music", {}, {}}, {"alps", {}, {}}};
  for (auto& prompt : sample_prompts(examples_each * 4, /*seed=*/7)) {
    topics[prompt.topic.value].examples.push_back(std::move(prompt.text));
  }
  return TopicTable(std::move(topics));
}

}  // namespace slip
