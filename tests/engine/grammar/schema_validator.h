// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

namespace slip::testing {

// Whether a document satisfies a schema, straight from JSON Schema's definitions of each keyword and with none of the
// compiler's code.
class SchemaValidator {
 public:
  explicit SchemaValidator(nlohmann::json schema) : root_(std::move(schema)) {}
  bool is_valid(const nlohmann::json& value) const { return is_valid(root_, value); }

 private:
  using Json = nlohmann::json;

  bool is_valid(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    if (schema.contains("$ref")) {
      const auto& reference = schema["$ref"].get_ref<const std::string&>();
      if (!is_valid(root_.at(Json::json_pointer(decoded(reference.substr(1)))), value)) return false;
    }
    return fits_type(schema, value) && fits_lists(schema, value) && fits_combinations(schema, value) &&
           (!value.is_string() || fits_string(schema, value)) && (!value.is_number() || fits_number(schema, value)) &&
           (!value.is_array() || fits_array(schema, value)) && (!value.is_object() || fits_object(schema, value));
  }

  static std::string decoded(std::string fragment) {
    for (auto at = fragment.find('%'); at != std::string::npos; at = fragment.find('%', at + 1)) {
      fragment.replace(at, 3, 1, static_cast<char>(std::stoi(fragment.substr(at + 1, 2), nullptr, 16)));
    }
    return fragment;
  }

  static bool has_type(const Json& value, const std::string& type) {
    if (type == "integer") return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
    if (type == "number") return value.is_number();
    return type == value.type_name();
  }
  static bool fits_type(const Json& schema, const Json& value) {
    if (!schema.contains("type") || (value.is_null() && schema.value("nullable", false))) return true;
    if (schema["type"].is_string()) return has_type(value, schema["type"]);
    return std::any_of(schema["type"].begin(), schema["type"].end(),
                       [&](const Json& type) { return has_type(value, type); });
  }
  static bool fits_lists(const Json& schema, const Json& value) {
    if (schema.contains("const") && schema["const"] != value) return false;
    return !schema.contains("enum") ||
           std::find(schema["enum"].begin(), schema["enum"].end(), value) != schema["enum"].end();
  }
  bool fits_combinations(const Json& schema, const Json& value) const {
    const auto n_valid = [&](const char* key) {
      return std::count_if(schema[key].begin(), schema[key].end(),
                           [&](const Json& one) { return is_valid(one, value); });
    };
    if (schema.contains("anyOf") && n_valid("anyOf") == 0) return false;
    if (schema.contains("oneOf") && n_valid("oneOf") != 1) return false;
    return !schema.contains("allOf") || n_valid("allOf") == static_cast<std::ptrdiff_t>(schema["allOf"].size());
  }
  static bool fits_string(const Json& schema, const Json& value) {
    const auto& text = value.get_ref<const std::string&>();
    const auto n = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
    if (n < schema.value("minLength", 0) || n > schema.value("maxLength", 1 << 30)) return false;
    return !schema.contains("pattern") || std::regex_search(text, std::regex(schema["pattern"].get<std::string>()));
  }
  static bool fits_number(const Json& schema, const Json& value) {
    const double number = value.get<double>();
    if (schema.contains("multipleOf")) {
      const double quotient = number / schema["multipleOf"].get<double>();
      if (std::abs(quotient - std::round(quotient)) > 1e-9 * std::abs(quotient)) return false;
    }
    return !(schema.contains("minimum") && number < schema["minimum"].get<double>()) &&
           !(schema.contains("maximum") && number > schema["maximum"].get<double>()) &&
           !(schema.contains("exclusiveMinimum") && number <= schema["exclusiveMinimum"].get<double>()) &&
           !(schema.contains("exclusiveMaximum") && number >= schema["exclusiveMaximum"].get<double>());
  }
  bool fits_array(const Json& schema, const Json& value) const {
    const auto n = static_cast<std::int64_t>(value.size());
    if (n < schema.value("minItems", 0) || n > schema.value("maxItems", 1 << 30)) return false;
    const Json prefix = schema.value("prefixItems", Json::array());
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i < prefix.size() ? !is_valid(prefix[i], value[i])
                            : schema.contains("items") && !is_valid(schema["items"], value[i])) {
        return false;
      }
    }
    return true;
  }
  bool fits_object(const Json& schema, const Json& value) const {
    for (const Json& name : schema.value("required", Json::array())) {
      if (!value.contains(name.get<std::string>())) return false;
    }
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [name, member] : value.items()) {
      if (properties.contains(name)) {
        if (!is_valid(properties[name], member)) return false;
      } else if (schema.contains("additionalProperties") && !is_valid(schema["additionalProperties"], member)) {
        return false;
      }
    }
    return true;
  }

  Json root_;
};

}  // namespace slip::testing
