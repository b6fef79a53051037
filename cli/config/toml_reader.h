// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <toml++/toml.h>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace slip::cli {

// One section of a configuration file, read key by key into fields that hold their defaults. Every fault is
// Error{kInvalidArgument} naming file, line and key. Keys that were never read are refused at the end, with the nearest
// known key.
class TomlSection {
 public:
  // An empty `section` is the file's top level.
  TomlSection(const toml::table& table, std::string where, std::string section);

  void read(const char* key, std::string& out);
  void read(const char* key, bool& out);
  void read(const char* key, std::vector<std::string>& out);
  // Both ends inclusive.
  template <class Integer>
  void read(const char* key, Integer& out, std::int64_t low, std::int64_t high) {
    out = static_cast<Integer>(integer(key, static_cast<std::int64_t>(out), low, high));
  }
  void read(const char* key, double& out, double low, double high);
  void read_choice(const char* key, std::string& out, const std::vector<std::string_view>& allowed);
  // The sub-table; empty when absent.
  TomlSection section(const char* key);
  const toml::array* tables(const char* key);  // [[key]]; null when absent

  // `hint` names a list of every key, for an unknown key that resembles none.
  void finish(const char* hint = "`slipstream serve --list-config` shows every key") const;
  [[noreturn]] void refuse(const char* key, const std::string& why) const;

 private:
  std::int64_t integer(const char* key, std::int64_t fallback, std::int64_t low, std::int64_t high);
  const toml::node* find(const char* key);
  std::string place(const toml::source_region& source) const;
  std::string full(std::string_view key) const;

  const toml::table* table_;
  std::string where_, section_;
  std::set<std::string, std::less<>> known_;
};

// Error{kInvalidArgument} with the line if the text is not TOML.
toml::table parse_toml(const std::string& text, const std::string& where);

// The legal values as errors and help name them: "1 to 2", and names in quotes with commas between them.
std::string range_text(std::int64_t low, std::int64_t high);
std::string range_text(double low, double high);
std::string choices_text(const std::vector<std::string_view>& allowed);

}  // namespace slip::cli
