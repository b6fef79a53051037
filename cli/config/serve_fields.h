// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/config/serve_config.h"

namespace slip::cli {

template <class Number>
struct Range {
  Number low, high;  // both inclusive
};
using Choices = std::vector<std::string_view>;

// An operation on every key of `serve`'s configuration, such as reading or writing it. visit_fields() calls it with
// each key, the member of ServeConfig that holds the value, the legal values, and one sentence of help. The overloads
// of field() convert members to the types of TOML, which the private functions get and may change.
class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;

  virtual void section(const char* name) = 0;  // of the fields that follow

  void field(const char* key, bool& value, const char* help) { flag(key, value, help); }
  void field(const char* key, std::string& value, const char* help) { text(key, value, help); }
  void field(const char* key, std::vector<std::string>& value, const char* help) { texts(key, value, help); }
  void field(const char* key, std::filesystem::path& value, const char* help);
  void field(const char* key, double& value, Range<double> range, const char* help) { number(key, value, range, help); }
  template <std::integral Integer>
  void field(const char* key, Integer& value, Range<std::int64_t> range, const char* help) {
    auto wide = static_cast<std::int64_t>(value);
    integer(key, wide, range, help);
    value = static_cast<Integer>(wide);
  }
  // An integer in the file, in a unit of `unit_us`; the member counts microseconds.
  void duration(const char* key, std::int64_t& value_us, std::int64_t unit_us, Range<std::int64_t> range,
                const char* help);
  void field(const char* key, std::chrono::milliseconds& value, const char* help);  // 1 ms … a day
  // A value by its name in the file. REQUIRES: `names` has a name for `value`.
  template <class Enum>
  void field(const char* key, Enum& value, std::initializer_list<std::pair<std::string_view, Enum>> names,
             const char* help) {
    named(key, value, names, help);
  }
  template <class Enum, std::size_t n>
  void field(const char* key, Enum& value, const std::array<std::pair<std::string_view, Enum>, n>& names,
             const char* help) {
    named(key, value, names, help);
  }
  // The file that `topics` are read from. Only a reader changes `topics`.
  virtual void topics_file(const char* key, std::filesystem::path& file, std::vector<Topic>& topics, const char* help);
  // A condition beyond a range: a reader refuses `key` unless `is_legal`.
  virtual void require(bool /*is_legal*/, const char* /*key*/, const std::string& /*why*/) {}

 private:
  template <class Enum, class Names>
  void named(const char* key, Enum& value, const Names& names, const char* help) {
    Choices allowed;
    std::string name;
    for (const auto& [one, meaning] : names) {
      allowed.push_back(one);
      if (meaning == value) name = one;
    }
    choice(key, name, allowed, help);
    for (const auto& [one, meaning] : names) {
      if (one == name) value = meaning;
    }
  }
  virtual void flag(const char* key, bool& value, const char* help) = 0;
  virtual void text(const char* key, std::string& value, const char* help) = 0;
  virtual void texts(const char* key, std::vector<std::string>& value, const char* help) = 0;
  virtual void integer(const char* key, std::int64_t& value, Range<std::int64_t> range, const char* help) = 0;
  virtual void number(const char* key, double& value, Range<double> range, const char* help) = 0;
  virtual void choice(const char* key, std::string& value, const Choices& allowed, const char* help) = 0;
};

// Visits every key once, in the order of configs/default.toml, which is also the order in which faults are reported.
void visit_fields(FieldVisitor& visitor, ServeConfig& config);

}  // namespace slip::cli
