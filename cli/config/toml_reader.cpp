// SPDX-License-Identifier: Apache-2.0
#include "cli/config/toml_reader.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <sstream>

#include "common/error.h"
#include "common/nearest_name.h"

namespace slip::cli {
namespace {

const toml::table kNoTable;

// From 2^20 on, powers of two and the numbers one below them are easier to read as such.
std::string bound_text(std::int64_t bound) {
  constexpr std::uint64_t kLeast = 1U << 20;
  const auto number = static_cast<std::uint64_t>(std::max<std::int64_t>(bound, 0));
  if (number >= kLeast && std::has_single_bit(number)) return "2^" + std::to_string(std::countr_zero(number));
  if (number >= kLeast && std::has_single_bit(number + 1))
    return "2^" + std::to_string(std::bit_width(number)) + " - 1";
  return std::to_string(bound);
}

}  // namespace

std::string range_text(std::int64_t low, std::int64_t high) {
  return bound_text(low) + " to " + bound_text(high);
}

std::string range_text(double low, double high) {
  std::ostringstream out;
  out << low << " to " << high;
  return out.str();
}

std::string choices_text(const std::vector<std::string_view>& allowed) {
  std::string list;
  for (const auto one : allowed) list += (list.empty() ? "\"" : ", \"") + std::string(one) + "\"";
  return list;
}

// toml++ limits how deep values nest, not how many parts a key has, and recurses once for each part: 40,000 of them
// overflow the stack. Counts dots with nothing but a name between them, in texts as well.
void check_keys(std::string_view text, const std::string& where) {
  constexpr int kMostParts = 256;
  int n_dots = 0, line = 1;
  char before = '.';  // the last character that is no blank
  for (const char c : text) {
    if (c == ' ' || c == '\t') continue;
    const bool in_name = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '"' ||
                         c == '\'' || static_cast<unsigned char>(c) >= 0x80;
    if (c == '\n') ++line;
    if (c == '.' && before != '.') {
      ++n_dots;
    } else if (!in_name) {
      n_dots = 0;
    }
    before = c;
    if (n_dots < kMostParts) continue;
    throw Error(ErrorCode::kInvalidArgument,
                where + ":" + std::to_string(line) + ": a key has more than " + std::to_string(kMostParts) + " parts");
  }
}

toml::table parse_toml(const std::string& text, const std::string& where) {
  check_keys(text, where);
  try {
    return toml::parse(std::string_view(text), std::string_view(where));
  } catch (const toml::parse_error& fault) {
    throw Error(ErrorCode::kInvalidArgument, where + ":" + std::to_string(fault.source().begin.line) +
                                                 ": not valid TOML: " + std::string(fault.description()));
  }
}

TomlSection::TomlSection(const toml::table& table, std::string where, std::string section)
    : table_(&table), where_(std::move(where)), section_(std::move(section)) {}

std::string TomlSection::full(std::string_view key) const {
  return section_.empty() ? std::string(key) : section_ + "." + std::string(key);
}

std::string TomlSection::place(const toml::source_region& source) const {
  return where_ + ":" + std::to_string(source.begin.line) + ": ";
}

void TomlSection::refuse(const char* key, const std::string& why) const {
  const toml::node* node = table_->get(key);
  const std::string at = node == nullptr ? where_ + ": " : place(node->source());
  throw Error(ErrorCode::kInvalidArgument, at + full(key) + " " + why, {}, full(key));
}

const toml::node* TomlSection::find(const char* key) {
  known_.insert(key);
  return table_->get(key);
}

void TomlSection::read(const char* key, std::string& out) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (!node->is_string()) refuse(key, "must be a string");
  out = node->as_string()->get();
  if (out.find('\0') != std::string::npos) refuse(key, "must not hold a NUL character");
}

void TomlSection::read(const char* key, bool& out) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (!node->is_boolean()) refuse(key, "must be true or false");
  out = node->as_boolean()->get();
}

void TomlSection::read(const char* key, std::vector<std::string>& out) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (!node->is_array()) refuse(key, "must be a list of strings");
  out.clear();
  for (const auto& one : *node->as_array()) {
    if (!one.is_string()) refuse(key, "must be a list of strings");
    out.push_back(one.as_string()->get());
  }
}

std::int64_t TomlSection::integer(const char* key, std::int64_t fallback, std::int64_t low, std::int64_t high) {
  const toml::node* node = find(key);
  if (node == nullptr) return fallback;
  if (!node->is_integer() || node->as_integer()->get() < low || node->as_integer()->get() > high) {
    refuse(key, "must be an integer from " + range_text(low, high));
  }
  return node->as_integer()->get();
}

void TomlSection::read(const char* key, double& out, double low, double high) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const double value = node->value<double>().value_or(std::nan(""));
  if (!node->is_number() || !(value >= low && value <= high)) {
    refuse(key, "must be a number from " + range_text(low, high));
  }
  out = value;
}

void TomlSection::read_choice(const char* key, std::string& out, const std::vector<std::string_view>& allowed) {
  read(key, out);
  if (std::find(allowed.begin(), allowed.end(), out) != allowed.end()) return;
  refuse(key, "must be one of " + choices_text(allowed));
}

TomlSection TomlSection::section(const char* key) {
  const toml::node* node = find(key);
  if (node == nullptr) return {kNoTable, where_, full(key)};
  if (!node->is_table()) refuse(key, "must be a section");
  return {*node->as_table(), where_, full(key)};
}

const toml::array* TomlSection::tables(const char* key) {
  const toml::node* node = find(key);
  if (node == nullptr) return nullptr;
  if (!node->is_array() || !node->as_array()->is_homogeneous(toml::node_type::table)) {
    refuse(key, "must be a list of sections, [[" + full(key) + "]]");
  }
  return node->as_array();
}

void TomlSection::finish(const char* hint) const {
  for (const auto& [key, node] : *table_) {
    if (known_.contains(key.str())) continue;
    const std::string nearest(nearest_name(key.str(), std::vector<std::string_view>(known_.begin(), known_.end())));
    const std::string what = node.is_table() ? "unknown section " : "unknown key ";
    throw Error(ErrorCode::kInvalidArgument, place(key.source()) + what + full(key.str()).substr(0, 128),
                nearest.empty() ? hint : "did you mean " + full(nearest) + "?", full(key.str()));
  }
}

}  // namespace slip::cli
