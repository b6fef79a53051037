// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/schema_overlap.h"

#include <algorithm>

#include "engine/grammar/schema_scalars.h"

namespace slip {

namespace {

bool share_a_value(const std::vector<SchemaJson>& a, const std::vector<SchemaJson>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const SchemaJson& value) { return std::find(b.begin(), b.end(), value) != b.end(); });
}

bool requires_property(const SchemaPlace& place, const std::string& name) {
  if (!place.has("required") || !place.json().at("required").is_array()) return false;
  const SchemaJson& names = place.json().at("required");
  return std::find(names.begin(), names.end(), SchemaJson(name)) != names.end();
}

bool declares(const SchemaPlace& place, const std::string& name) {
  return place.has("properties") && place.json().at("properties").is_object() &&
         place.json().at("properties").contains(name);
}

bool is_closed(const SchemaPlace& place) {
  return place.has("additionalProperties") && place.json().at("additionalProperties") == SchemaJson(false);
}

JsonKinds kind_named(const std::string& type) {
  const JsonKind kind = type == "null"      ? JsonKind::kNull
                        : type == "boolean" ? JsonKind::kBoolean
                        : type == "string"  ? JsonKind::kString
                        : type == "array"   ? JsonKind::kArray
                        : type == "object"  ? JsonKind::kObject
                                            : JsonKind::kNumber;
  return static_cast<JsonKinds>(kind);
}

// One comparison; what takes too long is left undecided.
class Comparison {
 public:
  explicit Comparison(const SchemaDocument& document) : document_(document) {}

  JsonKinds kinds_of(const SchemaPlace& reference) {
    if (!take_steps(1)) return kAllKinds;
    const SchemaPlace place = document_.resolve_all(reference);
    if (place.json().is_boolean()) return place.json().get<bool>() ? kAllKinds : 0;
    JsonKinds kinds = 0;
    if (const auto values = listed_values(place)) {
      for (const SchemaJson& value : *values) kinds |= kind_of(value);
      return kinds;
    }
    for (const char* key : {"anyOf", "oneOf"}) {
      if (!place.has(key) || !place.at(key).json().is_array()) continue;
      const SchemaPlace list = place.at(key);
      for (std::size_t i = 0; i < list.json().size(); ++i) kinds |= kinds_of(list.at(i));
      return kinds;
    }
    const auto types = declared_types(place);
    if (types.empty()) return kAllKinds;
    for (const std::string& type : types) kinds |= kind_named(type);
    return kinds;
  }

  // Whether objects of `a` have a property that no object of `b` has, or has with another value.
  bool are_told_apart(const SchemaPlace& a, const SchemaPlace& b) {
    if (!a.has("properties") || !a.json().at("properties").is_object()) return false;
    const SchemaPlace properties = a.at("properties");
    for (const auto& [name, schema] : properties.json().items()) {
      if (!take_steps(properties.json().size() + b.json().size())) return false;
      if (!requires_property(a, name)) continue;
      if (!declares(b, name)) {
        if (is_closed(b)) return true;
        continue;
      }
      const auto of_a = listed_values(document_.resolve_all(properties.at(name)));
      const auto of_b = listed_values(document_.resolve_all(b.at("properties").at(name)));
      if (of_a && of_b && !share_a_value(*of_a, *of_b)) return true;
    }
    return false;
  }

 private:
  // Also bounds how deep kinds_of() goes into itself.
  static constexpr std::size_t kMostSteps = 2000;
  bool take_steps(std::size_t n) {
    n_steps_ += n;
    return n_steps_ <= kMostSteps;
  }

  const SchemaDocument& document_;
  std::size_t n_steps_ = 0;
};

}  // namespace

bool may_overlap(const SchemaDocument& document, const SchemaPlace& a, const SchemaPlace& b) {
  Comparison comparison(document);
  const JsonKinds both = comparison.kinds_of(a) & comparison.kinds_of(b);
  if (both == 0) return false;
  const SchemaPlace first = document.resolve_all(a), second = document.resolve_all(b);
  const auto of_a = listed_values(first), of_b = listed_values(second);
  if (of_a && of_b) return share_a_value(*of_a, *of_b);
  const bool objects_only = both == static_cast<JsonKinds>(JsonKind::kObject);
  if (!objects_only || first.has("$ref") || second.has("$ref")) return true;
  return !comparison.are_told_apart(first, second) && !comparison.are_told_apart(second, first);
}

}  // namespace slip
