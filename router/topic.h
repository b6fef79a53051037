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
  std::string name;                  // ^[a-z0-9][a-z0-9_-]{0,47}$
  std::vector<std::string> aliases;  // "python" → code, "lang-*" → lang (a trailing * matches any suffix)
};

// The configured topics; TopicId is an index, and index 0 is always "unknown" (the base draft's own).
class TopicTable {
 public:
  explicit TopicTable(std::vector<Topic> configured);  // Error{kInvalidArgument} on a bad or repeated name
  // The client's label to a topic: name or alias; unknown and absent labels are topic 0.
  TopicId route(std::optional<std::string_view> label) const;
  const Topic& operator[](TopicId id) const { return topics_.at(id.value); }
  std::size_t size() const { return topics_.size(); }

 private:
  std::vector<Topic> topics_;
};

}  // namespace slip
