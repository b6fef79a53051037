// SPDX-License-Identifier: Apache-2.0
#include "server/openai/response_format.h"

#include <algorithm>
#include <array>

#include "checkpoints/json_document.h"
#include "engine/grammar/schema_compiler.h"

namespace slip {
namespace {

using nlohmann::json;

constexpr std::size_t kMostSchemaBytes = std::size_t{1} << 16;
constexpr std::size_t kLongestName = 64;
constexpr const char* kField = "response_format";

// The path of a part of the json_schema.
std::string in_schema(const char* part) {
  return std::string("response_format.json_schema") + part;
}

bool is_plain_name(const json& value) {
  if (!value.is_string()) return false;
  const auto& name = value.get_ref<const std::string&>();
  return !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

void check_json_schema(const json& wrapper) {
  check_members(wrapper, in_schema(""), std::array<std::string_view, 4>{"name", "description", "schema", "strict"});
  if (!wrapper.contains("name") || !is_plain_name(wrapper["name"])) {
    refuse_field(in_schema(".name"), "must be 1 to 64 letters, digits, '_' or '-'");
  }
  const auto is_null_or = [&](const char* name, auto is_right) {
    return !wrapper.contains(name) || wrapper[name].is_null() || is_right(wrapper[name]);
  };
  if (!is_null_or("description", [](const json& value) { return value.is_string(); })) {
    refuse_field(in_schema(".description"), "must be a string");
  }
  if (!is_null_or("strict", [](const json& value) { return value.is_boolean(); })) {
    refuse_field(in_schema(".strict"), "must be true or false");
  }
  if (!wrapper.contains("schema") || !wrapper["schema"].is_object()) {
    refuse_field(in_schema(".schema"), "must be an object");
  }
  if (wrapper["schema"].dump().size() > kMostSchemaBytes) {
    refuse_field(in_schema(".schema"), "is longer than " + std::to_string(kMostSchemaBytes) + " bytes");
  }
}

// Only the schema keeps its key order: ordered look-ups are slower, and the rest of a body may have a large number of
// keys.
std::string ordered_schema(std::string_view body) {
  const JsonDocument ordered(parse_ordered_json(body, kField));
  return ordered.root().at(kField).at("json_schema").at("schema").dump();
}

}  // namespace

ResponseFormat read_response_format(const RequestFields& fields, std::string_view body) {
  const json* value = fields.find(kField);
  if (value == nullptr) return {};
  check_members(*value, kField, std::array<std::string_view, 2>{"type", "json_schema"});
  const std::string type = value->contains("type") && (*value)["type"].is_string() ? (*value)["type"] : json("");
  const bool has_schema = value->contains("json_schema") && !(*value)["json_schema"].is_null();
  if (type == "json_schema") {
    if (!has_schema) refuse_field(in_schema(""), "is missing");
    check_json_schema((*value)["json_schema"]);
    return {ResponseFormat::Kind::kJsonSchema, ordered_schema(body)};
  }
  if (type != "text" && type != "json_object") {
    refuse_field(std::string(kField) + ".type", "must be text, json_object or json_schema");
  }
  if (has_schema) refuse_field(in_schema(""), "goes with the type json_schema only");
  return {type == "text" ? ResponseFormat::Kind::kText : ResponseFormat::Kind::kJsonObject, {}};
}

std::shared_ptr<const Grammar> GrammarCache::grammar(const ResponseFormat& format) {
  if (format.kind == ResponseFormat::Kind::kText) return nullptr;
  if (format.kind == ResponseFormat::Kind::kJsonObject) return json_object_grammar();
  if (auto found = find(format.schema)) return found;
  const JsonDocument schema(parse_ordered_json(format.schema));
  auto made = compile_schema(schema.root(), in_schema(".schema"));
  const std::lock_guard lock(mutex_);
  kept_.push_front({format.schema, made});
  if (kept_.size() > kMostKept) kept_.pop_back();
  return made;
}

bool GrammarCache::is_ready(const ResponseFormat& format) {
  return format.kind != ResponseFormat::Kind::kJsonSchema || find(format.schema) != nullptr;
}

std::shared_ptr<const Grammar> GrammarCache::find(const std::string& schema) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Entry& one) { return one.schema == schema; });
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return found->grammar;
}

}  // namespace slip
