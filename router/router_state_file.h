// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "router/topic.h"
#include "router/topic_classifier.h"

namespace slip {

// What the router knows, as one flat file, little-endian:
//
//   magic "SLIPROU\1" | feature version u32 | feature buckets u32 | fingerprint of the seeds u64 | lessons u64
//   n topics u32 | their names: length u8, bytes | weights f32 [buckets, n topics] | crc32c u32 over all that precedes
struct RouterState {
  std::uint64_t seeds_fingerprint = 0;
  std::vector<std::string> topics;  // [classifier.n_topics]
  TopicClassifier classifier;
};

// What a router with these topics writes.
RouterState router_state(const TopicTable& topics, TopicClassifier classifier);
// Atomic replacement; fail points `router.*`.
void write_router_state(const std::filesystem::path& file, const RouterState& state);
// Error{kNotFound}; Error{kDataLoss} when the file is torn, damaged, of another format, or says what no router wrote.
// Sizes are checked before anything is allocated.
RouterState read_router_state(const std::filesystem::path& file);

// The classifier to serve with. A stored state goes on as it was, or, when topics or examples have changed since, as
// reseeded_classifier() says. A file that cannot be used is moved to `<file>.bad` with a warning, and the seeds alone
// are the start, as they are where there is no file.
TopicClassifier load_or_seed(const std::filesystem::path& file, const TopicTable& topics);

}  // namespace slip
