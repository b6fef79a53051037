// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/strict_json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/error.h"

namespace slip {
namespace {

using nlohmann::json;

// Watches a parse go by and stops it at the first fault, before the faulty value is built.
class StrictWatch {
 public:
  StrictWatch(const std::string& where, JsonBounds bounds) : where_(where), bounds_(bounds) {}

  bool operator()(json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        open();
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key:
        if (!keys_.back().insert(parsed.get_ref<const std::string&>()).second) fail("has a key twice in one object");
        count();
        break;
      case json::parse_event_t::value:
        count();
        break;
    }
    return true;
  }

 private:
  void open() {
    keys_.emplace_back();
    if (keys_.size() > static_cast<std::size_t>(bounds_.max_depth)) fail("is nested too deeply");
    count();
  }
  void count() {
    if (++n_values_ > bounds_.max_values) fail("has too many values");
  }
  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorCode::kInvalidArgument, where_ + ": the JSON " + what);
  }

  const std::string& where_;
  JsonBounds bounds_;
  std::vector<std::unordered_set<std::string>> keys_;
  std::size_t n_values_ = 0;
};

}  // namespace

json parse_strict_json(std::string_view text, const std::string& where, JsonBounds bounds) {
  // The parser takes a NUL for the end of its input and would never look at what follows.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    throw Error(ErrorCode::kInvalidArgument, where + ": not valid JSON at byte " + std::to_string(nul) + " (a NUL)");
  }
  StrictWatch watch(where, bounds);
  try {
    return json::parse(text, [&](int, json::parse_event_t event, json& parsed) { return watch(event, parsed); });
  } catch (const json::parse_error& fault) {
    throw Error(ErrorCode::kInvalidArgument, where + ": not valid JSON at byte " + std::to_string(fault.byte) + " of " +
                                                 std::to_string(text.size()));
  } catch (const json::exception&) {
    throw Error(ErrorCode::kInvalidArgument, where + ": not valid JSON (a number is out of range)");
  }
}

std::optional<std::int64_t> exact_integer(const json& value, JsonFields::IntegerRange range) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  const auto number = value.get<std::int64_t>();
  if (number < range.low || number > range.high) return std::nullopt;
  return number;
}

JsonFields::JsonFields(const json& object, std::string where) : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) throw Error(ErrorCode::kInvalidArgument, where_ + ": expected a JSON object");
}

bool JsonFields::has(const char* key) const {
  return object_->contains(key);
}

const json* JsonFields::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

void JsonFields::refuse(const char* key, const std::string& why) const {
  throw Error(ErrorCode::kInvalidArgument, where_ + ": \"" + key + "\" " + why, {}, key);
}

std::int64_t JsonFields::integer(const char* key, IntegerRange range) const {
  const auto value = optional_integer(key, range);
  if (!value) refuse(key, "is missing");
  return *value;
}

std::optional<std::int64_t> JsonFields::optional_integer(const char* key, IntegerRange range) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = exact_integer(*value, range);
  if (!number) {
    refuse(key, "must be an integer from " + std::to_string(range.low) + " to " + std::to_string(range.high));
  }
  return number;
}

std::optional<double> JsonFields::optional_number(const char* key, NumberRange range) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= range.low && number <= range.high)) {
    refuse(key, "must be a number from " + json(range.low).dump() + " to " + json(range.high).dump());
  }
  return number;
}

std::optional<bool> JsonFields::optional_boolean(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "must be true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonFields::optional_string(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, "must be a string");
  return value->get<std::string>();
}

}  // namespace slip
