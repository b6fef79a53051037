// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace slip {

// Error{kInvalidArgument | kUnsupported} about a field of a request, by the name its client knows.
[[noreturn]] void refuse_field(const std::string& field, const std::string& why);
[[noreturn]] void refuse_unsupported_field(const std::string& field, const std::string& why = "is not supported yet");

// `value` as an integer of [low, high], nullopt for anything else. A float counts when it is whole, as in JSON Schema:
// clients whose language has one kind of number send 16.0. It must be below 2^53, where a double is what was written.
std::optional<std::int64_t> whole_number(const nlohmann::json& value, std::int64_t low, std::int64_t high);

// Typed access to the fields of a request's body; a field that is absent or null is nullopt, one of another type or
// outside its range is refused by name. REQUIRES: `body` is an object and outlives this.
class RequestFields {
 public:
  explicit RequestFields(const nlohmann::json& body) : body_(body) {}

  const nlohmann::json* find(const char* name) const;  // null when absent or null
  std::optional<std::string> text(const char* name) const;
  std::optional<bool> boolean(const char* name) const;
  std::optional<std::int64_t> integer(const char* name, std::int64_t low, std::int64_t high) const;
  // `allowed` sees NaN for what is no number; `range` says in words what it allows.
  std::optional<float> number(const char* name, const std::function<bool(double)>& allowed, const char* range) const;

 private:
  const nlohmann::json& body_;
};

// A list of token ids, whatever the vocabulary; refused by `field`'s name, with the place of what is none.
std::vector<std::int32_t> read_token_ids(const nlohmann::json& list, const std::string& field);

}  // namespace slip
