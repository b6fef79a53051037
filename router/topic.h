// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"

namespace slip {

struct Topic {
  std::string name;                   // ^[a-z0-9][a-z0-9_-]{0,47}$
  std::vector<std::string> aliases;   // "python" → code, "lang-*" → lang (a trailing * matches any suffix)
  std::vector<std::string> examples;  // prompts that the classifier starts from
};

// The configured topics; TopicId is an index, and index 0 is always "unknown" (the base draft's own). A configured
// topic of that name describes it and is no further one.
class TopicTable {
 public:
  static constexpr std::size_t kMaxTopics = 64;  // "unknown" included: each has a draft, and a column of the classifier
  static constexpr std::size_t kMaxExamples = 256, kMaxExampleBytes = 4096;  // of one topic; of one example

  explicit TopicTable(std::vector<Topic> configured);  // Error{kInvalidArgument} on a bad or repeated name, or too many
  // The client's label to a topic, by name or alias; nullopt when it is neither, or absent.
  std::optional<TopicId> find(std::optional<std::string_view> label) const;
  const Topic& operator[](TopicId id) const { return topics_.at(id.value); }
  std::size_t size() const { return topics_.size(); }

 private:
  std::vector<Topic> topics_;
};

bool is_topic_name(std::string_view text);

// A topic's draft is published in a folder of the topic's name, so names that the draft store uses itself are refused.
constexpr bool is_reserved_topic_name(std::string_view text) {
  return text == "base";
}

}  // namespace slip
