// SPDX-License-Identifier: Apache-2.0
#include "router/topic.h"

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/topic_name.h"

namespace slip {

namespace {

constexpr std::string_view kUnknown = "unknown";

bool is_pattern(std::string_view alias) {
  return alias.ends_with('*');
}

bool matches(std::string_view alias, std::string_view label) {
  return is_pattern(alias) && label.starts_with(alias.substr(0, alias.size() - 1));
}

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw Error(
      ErrorCode::kInvalidArgument, what + " " + why,
      "a topic is named by 1 to 48 of a-z, 0-9, _ and -, starting with a letter or digit; an alias may end in *",
      "topics");
}

[[noreturn]] void refuse_reserved(const std::string& name) {
  throw Error(ErrorCode::kInvalidArgument,
              "topic \"" + name + "\" has a name of Slipstream's own: " + kReservedTopicNames,
              "give the topic another name; labels \"" + name + "\" may still reach it as an alias", "topics");
}

// Shortens the text and replaces unprintable bytes, since a configuration may hold anything.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kMaxTopicNameBytes)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + "\"";
}

void check_examples(const Topic& topic) {
  const bool fit = std::all_of(topic.examples.begin(), topic.examples.end(), [](const std::string& example) {
    return !example.empty() && example.size() <= TopicTable::kMaxExampleBytes;
  });
  if (fit && topic.examples.size() <= TopicTable::kMaxExamples) return;
  throw Error(ErrorCode::kInvalidArgument,
              "topic " + quoted(topic.name) + " has too many examples, an empty one or one that is too long",
              "at most " + std::to_string(TopicTable::kMaxExamples) + " of 1 to " +
                  std::to_string(TopicTable::kMaxExampleBytes) + " bytes",
              "topics");
}

}  // namespace

TopicTable::TopicTable(std::vector<Topic> configured) {
  topics_.push_back({std::string(kUnknown), {}, {}});
  std::vector<std::string_view> taken;
  const auto take = [&](std::string_view word) {
    if (std::find(taken.begin(), taken.end(), word) != taken.end()) {
      refuse(quoted(word), "names two topics or one twice");
    }
    taken.push_back(word);
  };
  for (const Topic& topic : configured) {
    if (!is_topic_name(topic.name)) refuse("topic " + quoted(topic.name), "is not a valid name");
    if (is_reserved_topic_name(topic.name)) refuse_reserved(topic.name);
    take(topic.name);
    for (const std::string& alias : topic.aliases) {
      const std::string_view stem = std::string_view(alias).substr(0, alias.size() - (is_pattern(alias) ? 1 : 0));
      if (!is_topic_name(stem)) refuse("alias " + quoted(alias) + " of topic " + quoted(topic.name), "is not valid");
      if (alias == kUnknown) refuse(quoted(alias), "is what no topic is");
      take(alias);
    }
    check_examples(topic);
  }
  for (Topic& topic : configured) {
    if (topic.name == kUnknown) {
      topics_.front() = std::move(topic);
    } else {
      topics_.push_back(std::move(topic));
    }
  }
  if (topics_.size() > kMaxTopics) {
    throw Error(ErrorCode::kInvalidArgument,
                std::to_string(topics_.size()) + " topics, \"unknown\" included, are more than the most, " +
                    std::to_string(kMaxTopics),
                "each topic has a draft of its own in memory", "topics");
  }
}

std::optional<TopicId> TopicTable::find(std::optional<std::string_view> label) const {
  if (!label) return std::nullopt;
  std::optional<TopicId> best;
  std::size_t best_length = 0;  // the longest matching pattern wins
  for (std::uint32_t i = 0; i < topics_.size(); ++i) {
    if (topics_[i].name == *label) return TopicId{i};
    for (const std::string& alias : topics_[i].aliases) {
      if (alias == *label) return TopicId{i};
      if (alias.size() > best_length && matches(alias, *label)) {
        best = {i};
        best_length = alias.size();
      }
    }
  }
  return best;
}

}  // namespace slip
