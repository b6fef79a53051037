// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/schema_place.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/error.h"
#include "common/percent_decoding.h"

namespace slip {

namespace {

constexpr std::size_t kMostShown = 64;  // bytes of a key in a message
constexpr std::int64_t kMostCount = 1 << 30;
constexpr int kLongestChain = 64;

}  // namespace

SchemaPlace SchemaPlace::at(const std::string& key) const {
  return {json_->at(key), path_ + "." + key.substr(0, kMostShown)};
}

SchemaPlace SchemaPlace::at(std::size_t index) const {
  return {json_->at(index), path_ + "[" + std::to_string(index) + "]"};
}

std::optional<std::int32_t> SchemaPlace::count(const char* key) const {
  if (!has(key)) return std::nullopt;
  const SchemaPlace place = at(key);
  const SchemaJson& value = place.json();
  // 3.0 counts as 3 in JSON Schema.
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0) || number != static_cast<double>(static_cast<std::int64_t>(std::min(number, 1e15)))) {
    place.refuse("must be a non-negative integer");
  }
  if (number > static_cast<double>(kMostCount)) place.refuse("must be at most " + std::to_string(kMostCount));
  return static_cast<std::int32_t>(number);
}

void SchemaPlace::refuse(const std::string& why) const {
  throw Error(ErrorCode::kInvalidArgument, "'" + path_ + "' " + why, {}, path_);
}

void SchemaPlace::refuse_unsupported(const std::string& why) const {
  throw Error(ErrorCode::kUnsupported, "'" + path_ + "' " + why, {}, path_);
}

JsonKinds kind_of(const SchemaJson& value) {
  const auto kind = value.is_null()      ? JsonKind::kNull
                    : value.is_boolean() ? JsonKind::kBoolean
                    : value.is_number()  ? JsonKind::kNumber
                    : value.is_string()  ? JsonKind::kString
                    : value.is_array()   ? JsonKind::kArray
                                         : JsonKind::kObject;
  return static_cast<JsonKinds>(kind);
}

SchemaPlace SchemaDocument::resolve(const SchemaPlace& place) const {
  if (const auto known = resolved_.find(&place.json()); known != resolved_.end()) return known->second;
  SchemaPlace found = find(place.at("$ref"));
  resolved_.emplace(&place.json(), found);
  return found;
}

SchemaPlace SchemaDocument::find(const SchemaPlace& reference) const {
  ++n_references_read_;
  if (!reference.json().is_string()) reference.refuse("must be a string");
  const auto& text = reference.json().get_ref<const std::string&>();
  if (text == "#") return root_;
  if (text.rfind("#/", 0) != 0) {
    reference.refuse_unsupported("must name a place in this schema, such as #/$defs/node");
  }
  const SchemaJson* found = &root_.json();
  std::string path = root_.path();
  for (std::size_t begin = 2; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    auto decoded = percent_decoded(std::string_view(text).substr(begin, end - begin));  // RFC 6901, 6
    if (!decoded) reference.refuse("has a % that two hexadecimal digits do not follow");
    std::string& key = *decoded;
    for (const auto& [escape, character] : {std::pair("~1", "/"), std::pair("~0", "~")}) {
      for (std::size_t at = 0; (at = key.find(escape, at)) != std::string::npos; ++at) key.replace(at, 2, character);
    }
    const bool is_index = found->is_array() && !key.empty() && key.size() < 9 &&
                          std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (found->is_object() && found->contains(key)) {
      found = &found->at(key);
      path += "." + key.substr(0, kMostShown);
    } else if (is_index && std::stoul(key) < found->size()) {
      found = &found->at(std::stoul(key));
      path += "[" + key + "]";
    } else {
      reference.refuse("names a place that is not there");
    }
    begin = end + 1;
  }
  return {*found, path};
}

SchemaPlace SchemaDocument::resolve_all(SchemaPlace place) const {
  for (int i = 0; i < kLongestChain && place.has("$ref"); ++i) place = resolve(place);
  return place;
}

bool is_nullable(const SchemaPlace& place) {
  if (!place.has("nullable")) return false;
  const SchemaPlace nullable = place.at("nullable");
  if (!nullable.json().is_boolean()) nullable.refuse("must be true or false");
  return nullable.json().get<bool>();
}

std::vector<std::string> declared_types(const SchemaPlace& place) {
  static constexpr std::array kNames = {"null", "boolean", "integer", "number", "string", "array", "object"};
  std::vector<std::string> types;
  const bool nullable = is_nullable(place);
  if (!place.has("type")) return types;
  const SchemaPlace type = place.at("type");
  const auto add = [&](const SchemaPlace& one) {
    const bool known = one.json().is_string() && std::find(kNames.begin(), kNames.end(),
                                                           one.json().get_ref<const std::string&>()) != kNames.end();
    if (!known) one.refuse("must be null, boolean, integer, number, string, array or object");
    types.push_back(one.json().get<std::string>());
  };
  if (type.json().is_array()) {
    if (type.json().empty()) type.refuse("must not be empty");
    for (std::size_t i = 0; i < type.json().size(); ++i) add(type.at(i));
  } else {
    add(type);
  }
  if (nullable) types.emplace_back("null");
  std::sort(types.begin(), types.end());
  types.erase(std::unique(types.begin(), types.end()), types.end());
  return types;
}

}  // namespace slip
