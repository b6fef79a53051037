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

// The examples of all topics, taking turns; a topic with fewer ones repeats them, so that each comes equally often. A
// topic without examples is left out. Pure, as all here.
std::vector<TopicExample> examples_in_turn(const TopicTable& topics);

// What a classifier starts as: zero weights that went over the examples some times. Milliseconds.
TopicClassifier seeded_classifier(const TopicTable& topics);
// What becomes of a learned state when the topics or their examples changed: topics keep their weights by name, new
// ones begin at zero, and then the examples are gone over as at the start. REQUIRES: before.n_topics == names.size().
TopicClassifier reseeded_classifier(const TopicTable& topics, const TopicClassifier& before,
                                    const std::vector<std::string>& names);

// Of names and examples; a stored state belongs to the topics of its fingerprint. Same value on every machine.
std::uint64_t seeds_fingerprint(const TopicTable& topics);

}  // namespace slip
