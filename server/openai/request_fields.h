// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slip {

// Throws Error{kInvalidArgument | kUnsupported} about a request's field, under the name that the client sent.
[[noreturn]] void refuse_field(const std::string& field, const std::string& why);
[[noreturn]] void refuse_unsupported_field(const std::string& field, const std::string& why = "is not supported yet");

// `value` as an integer of [low, high], else nullopt. A whole float counts, as in JSON Schema, since clients with one
// number type send 16.0. It must be below 2^53, where doubles are exact.
std::optional<std::int64_t> whole_number(const nlohmann::json& value, std::int64_t low, std::int64_t high);

// Typed access to the fields of a request's body. An absent or null field is nullopt. A field of another type or out of
// range throws an error naming it, after `prefix`. REQUIRES: `body` is an object and outlives this.
class RequestFields {
 public:
  explicit RequestFields(const nlohmann::json& body, std::string prefix = {})
      : body_(body), prefix_(std::move(prefix)) {}

  const nlohmann::json* find(const char* name) const;  // null when absent or null
  std::optional<std::string> text(const char* name) const;
  std::optional<bool> boolean(const char* name) const;
  std::optional<std::int64_t> integer(const char* name, std::int64_t low, std::int64_t high) const;
  // `allowed` receives NaN for values that are not numbers; `range` describes the allowed range in words.
  std::optional<float> number(const char* name, const std::function<bool(double)>& allowed, const char* range) const;

 private:
  const nlohmann::json& body_;
  std::string prefix_;
};

// Refuses the member `name` of the object at `where`, which has none of that name, with the known one that it
// resembles. `where`: the object's place in the request; empty: the request itself.
[[noreturn]] void refuse_unknown_field(const std::string& where, const std::string& name,
                                       std::span<const std::string_view> known);
// Refuses what is no object, and members that are not in `known`. `where`: as above.
void check_members(const nlohmann::json& object, const std::string& where, std::span<const std::string_view> known);

// Reads a list of token ids, without a check against the vocabulary. Errors name `field` and the invalid entry's place.
std::vector<std::int32_t> read_token_ids(const nlohmann::json& list, const std::string& field);

}  // namespace slip
