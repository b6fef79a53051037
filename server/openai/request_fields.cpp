// SPDX-License-Identifier: Apache-2.0
#include "server/openai/request_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "common/escape_controls.h"
#include "common/nearest_name.h"

namespace slip {

using nlohmann::json;

namespace {

constexpr double kExactBelow = 9007199254740992.0;  // 2^53

}  // namespace

std::optional<std::int64_t> whole_number(const json& value, std::int64_t low, std::int64_t high) {
  if (!value.is_number_float()) return exact_integer(value, {low, high});
  const double number = value.get<double>();
  if (!(std::abs(number) < kExactBelow) || std::floor(number) != number) return std::nullopt;
  return exact_integer(static_cast<std::int64_t>(number), {low, high});
}

void refuse_field(const std::string& field, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, "'" + escape_controls(field) + "' " + why, {}, field);
}

void refuse_unsupported_field(const std::string& field, const std::string& why) {
  throw Error(ErrorCode::kUnsupported, "'" + field + "' " + why, {}, field);
}

void refuse_unknown_field(const std::string& where, const std::string& name, std::span<const std::string_view> known) {
  constexpr std::size_t kMostShown = 64;
  const std::string prefix = where.empty() ? "" : where + ".", shown = name.substr(0, kMostShown);
  const std::string_view nearest = nearest_name(shown, known);
  throw Error(ErrorCode::kInvalidArgument, "'" + escape_controls(prefix + shown) + "' is not a field of this request",
              nearest.empty() ? "" : "did you mean '" + prefix + std::string(nearest) + "'?", prefix + shown);
}

void check_members(const json& object, const std::string& where, std::span<const std::string_view> known) {
  if (!object.is_object()) refuse_field(where, "must be an object");
  for (const auto& item : object.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    refuse_unknown_field(where, item.key(), known);
  }
}

const json* RequestFields::find(const char* name) const {
  const auto found = body_.find(name);
  return found == body_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> RequestFields::text(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_field(prefix_ + name, "must be a string");
  return value->get<std::string>();
}

std::optional<bool> RequestFields::boolean(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_field(prefix_ + name, "must be true or false");
  return value->get<bool>();
}

std::optional<std::int64_t> RequestFields::integer(const char* name, std::int64_t low, std::int64_t high) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = whole_number(*value, low, high);
  if (!number) {
    const bool is_inexact = value->is_number_float() && std::abs(value->get<double>()) >= kExactBelow;
    refuse_field(prefix_ + name,
                 "must be an integer from " + std::to_string(low) + " to " + std::to_string(high) +
                     (is_inexact ? ", written without a fraction or an exponent where it is large" : ""));
  }
  return number;
}

std::optional<float> RequestFields::number(const char* name, const std::function<bool(double)>& allowed,
                                           const char* range) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const double found = value->is_number() ? value->get<double>() : std::nan("");
  if (!allowed(found)) refuse_field(prefix_ + name, std::string("must be a number ") + range);
  return static_cast<float>(found);
}

std::vector<std::int32_t> read_token_ids(const json& list, const std::string& field) {
  if (!list.is_array()) refuse_field(field, "must be a list of token ids");
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const json& one : list) {
    const auto id = whole_number(one, 0, std::numeric_limits<std::int32_t>::max());
    if (!id) refuse_field(field + "[" + std::to_string(ids.size()) + "]", "is no token id");
    ids.push_back(static_cast<std::int32_t>(*id));
  }
  return ids;
}

}  // namespace slip
