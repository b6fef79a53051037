// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/ids.h"
#include "router/topic.h"
#include "router/topic_classifier.h"

namespace slip {

struct TopicExample {
  TopicId topic;
  std::vector<std::uint32_t> features;
};

// The examples of all topics in turn. A topic with fewer examples repeats them, so that all topics occur equally often;
// one without examples is left out. Pure, like all functions here.
std::vector<TopicExample> examples_in_turn(const TopicTable& topics);

// The initial classifier: zero weights trained with the examples for several passes. Takes milliseconds.
TopicClassifier seeded_classifier(const TopicTable& topics);
// Adapts a learned state after topics or their examples changed. Topics keep their weights by name, new ones start at
// zero, then the examples are trained as at the start. REQUIRES: before.n_topics == names.size().
TopicClassifier reseeded_classifier(const TopicTable& topics, const TopicClassifier& before,
                                    const std::vector<std::string>& names);

// A fingerprint of names and examples. A stored state belongs to the topics with its fingerprint. Same value on every
// machine.
std::uint64_t seeds_fingerprint(const TopicTable& topics);

}  // namespace slip
