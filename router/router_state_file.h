// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "router/topic.h"
#include "router/topic_classifier.h"

namespace slip {

// The router's state as one flat little-endian file:
//
//   magic "SLIPROU\1" | feature version u32 | feature buckets u32 | fingerprint of the seeds u64 | lessons u64
//   n topics u32 | their names: length u8, bytes | weights f32 [buckets, n topics] | crc32c u32 over all that precedes
struct RouterState {
  std::uint64_t seeds_fingerprint = 0;
  std::vector<std::string> topics;  // [classifier.n_topics]
  TopicClassifier classifier;
};

// The state to write for a router with these topics.
RouterState router_state(const TopicTable& topics, TopicClassifier classifier);
// Atomic replacement; fail points `router.*`.
void write_router_state(const std::filesystem::path& file, const RouterState& state);
// Error{kNotFound}; Error{kDataLoss} when the file is torn, damaged, of another format, or inconsistent. Sizes are
// checked before anything is allocated.
RouterState read_router_state(const std::filesystem::path& file);

// The classifier to serve with. A stored state is used as it is; if topics or examples have changed, through
// reseeded_classifier(). An unusable file is moved to `<file>.bad` with a warning. Then, and if there is no file, the
// classifier is trained from the examples alone.
TopicClassifier load_or_seed(const std::filesystem::path& file, const TopicTable& topics);

}  // namespace slip
