// SPDX-License-Identifier: Apache-2.0
#include <toml++/toml.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/config/serve_config.h"
#include "cli/config/serve_fields.h"
#include "cli/config/toml_reader.h"

namespace slip::cli {
namespace {

constexpr std::size_t kCommentColumn = 36, kColumns = 120;  // of a line of configs/default.toml
constexpr std::string_view kTopicsFile = "topics";          // its section, which the effective configuration lacks

toml::array to_node(const std::vector<std::string>& texts) {
  toml::array out;
  for (const auto& text : texts) out.push_back(text);
  return out;
}

template <class Value>
const Value& to_node(const Value& value) {
  return value;
}

// JSON, which is TOML too. A path may hold bytes that are no UTF-8.
std::string json_text(const nlohmann::json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

// The values of a configuration, and the comment that explains each key.
class FieldWriter final : public FieldVisitor {
 public:
  struct Key {
    std::string section, name, value, comment;
  };

  explicit FieldWriter(ServeConfig config) { visit_fields(*this, config); }
  void section(const char* name) override { section_ = name; }

  toml::table table;
  std::vector<Key> keys;

 private:
  void flag(const char* key, bool& value, const char* help) override { add(key, value, help); }
  void text(const char* key, std::string& value, const char* help) override { add(key, value, help); }
  void texts(const char* key, std::vector<std::string>& value, const char* help) override { add(key, value, help); }
  void integer(const char* key, std::int64_t& value, Range<std::int64_t> range, const char* help) override {
    add(key, value, range_text(range.low, range.high) + "; " + help);
  }
  void number(const char* key, double& value, Range<double> range, const char* help) override {
    add(key, value, range_text(range.low, range.high) + "; " + help);
  }
  void choice(const char* key, std::string& value, const Choices& allowed, const char* help) override {
    add(key, value, choices_text(allowed) + "; " + help);
  }
  template <class Value>
  void add(const char* key, const Value& value, std::string comment) {
    table.emplace<toml::table>(section_).first->second.as_table()->insert(key, to_node(value));
    keys.push_back({section_, key, json_text(value), std::move(comment)});
  }

  std::string section_;
};

// Examples may fill pages: they are compared, but not printed.
toml::array topic_tables(const ServeConfig& config, bool with_examples) {
  toml::array topics;
  for (const Topic& topic : config.topics) {
    toml::table one{{"name", topic.name}, {"aliases", to_node(topic.aliases)}};
    if (with_examples) one.insert("examples", to_node(topic.examples));
    topics.push_back(std::move(one));
  }
  return topics;
}

// The effective configuration: the topics instead of their file.
toml::table table_of(const ServeConfig& config) {
  toml::table table = FieldWriter(config).table;
  table.erase(kTopicsFile);
  table.insert("topic", topic_tables(config, /*with_examples=*/false));
  return table;
}

template <class Node>
std::string text_of(const Node& node) {
  std::ostringstream out;
  out << node;
  return out.str();
}

// The line with a comment, which continues on lines below where it is too long.
std::string commented(std::string line, const std::string& comment) {
  std::string lines;
  line.resize(std::max(line.size() + 1, kCommentColumn), ' ');
  line += '#';
  std::istringstream words(comment);
  for (std::string word; words >> word; line += ' ' + word) {
    if (line.size() + 1 + word.size() <= kColumns) continue;
    lines += line + '\n';
    line = std::string(kCommentColumn, ' ') + '#';
  }
  return lines + line + '\n';
}

}  // namespace

std::string to_toml(const ServeConfig& config) {
  return text_of(table_of(config)) + "\n";
}

std::string to_commented_toml(const ServeConfig& config) {
  const FieldWriter fields(config);
  std::string text, last_section;
  for (const auto& [section, key, value, comment] : fields.keys) {
    if (section != last_section) text += (text.empty() ? "[" : "\n[") + section + "]\n";
    last_section = section;
    text += commented(key + " = " + value, comment);
  }
  return text;
}

std::map<std::string, std::string> effective_values(const ServeConfig& config) {
  const FieldWriter fields(config);
  std::map<std::string, std::string> values{{"topic", text_of(topic_tables(config, /*with_examples=*/true))}};
  for (const auto& [section, key, value, comment] : fields.keys) {
    if (section != kTopicsFile) values[section + "." + key] = text_of(fields.table[section][key]);
  }
  return values;
}

}  // namespace slip::cli
