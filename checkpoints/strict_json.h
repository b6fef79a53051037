// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace slip {

struct JsonBounds {
  int max_depth = 64;                             // deeper documents are refused before they are built
  std::size_t max_values = std::size_t{8} << 20;  // values and keys; limits the memory of an untrusted file
};

// Parses a document within `bounds`; duplicate keys are errors. Throws Error{kInvalidArgument} whose message begins
// with `where` (a file's name), gives the byte offset, and never quotes the file. Its param() is the outermost key
// around the faulty value; empty if there is none or it has over 64 bytes.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where, JsonBounds bounds = {});

// Reads fields of a JSON object by exact type and range (nlohmann's get<int>() turns true and 2^32 + 1 into 1). null
// counts as absent. Errors are Error{kInvalidArgument} naming `where` and the key (also as Error::param()).
class JsonFields {
 public:
  struct IntegerRange {
    std::int64_t low = 0, high = 0;  // both inclusive
  };
  struct NumberRange {
    double low = 0, high = 0;  // both inclusive; finite
  };

  // `object` must outlive this; throws unless it is a JSON object.
  JsonFields(const nlohmann::json& object, std::string where);

  const nlohmann::json* find(const char* key) const;  // nullptr when absent or null
  bool has(const char* key) const;                    // also when it is null
  std::int64_t integer(const char* key, IntegerRange range) const;
  std::optional<std::int64_t> optional_integer(const char* key, IntegerRange range) const;
  std::optional<double> optional_number(const char* key, NumberRange range) const;
  std::optional<bool> optional_boolean(const char* key) const;
  std::optional<std::string> optional_string(const char* key) const;
  [[noreturn]] void refuse(const char* key, const std::string& why) const;  // Error{kInvalidArgument}
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json* object_;
  std::string where_;
};

// `value` as an integer within the range; nullopt for anything else (booleans, floats, out of range).
std::optional<std::int64_t> exact_integer(const nlohmann::json& value, JsonFields::IntegerRange range);

}  // namespace slip
