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
  std::string name;                   // as is_topic_name()
  std::vector<std::string> aliases;   // "python" → code, "lang-*" → lang (a trailing * matches any suffix)
  std::vector<std::string> examples;  // prompts that the classifier is first trained with
};

// The configured topics. TopicId is an index; index 0 is always "unknown", whose draft is the base draft. A configured
// topic named "unknown" describes index 0.
class TopicTable {
 public:
  static constexpr std::size_t kMaxTopics = 64;  // "unknown" included: each has a draft, and a column of the classifier
  static constexpr std::size_t kMaxExamples = 256, kMaxExampleBytes = 4096;  // per topic; per example

  explicit TopicTable(std::vector<Topic> configured);  // Error{kInvalidArgument} on a bad or repeated name, or too many
  // The topic of a client's label, by name or alias; nullopt if there is none.
  std::optional<TopicId> find(std::optional<std::string_view> label) const;
  const Topic& operator[](TopicId id) const { return topics_.at(id.value); }
  std::size_t size() const { return topics_.size(); }

 private:
  std::vector<Topic> topics_;
};

// Names that no topic may have, since folders of drafts and reports use topics' names.
constexpr bool is_reserved_topic_name(std::string_view text) {
  return text == "base" || text == "prompt_lookup";
}
inline constexpr const char* kReservedTopicNames =
    "\"base\" is the draft that all topics start from, \"prompt_lookup\" what reports call serving without one";

}  // namespace slip
