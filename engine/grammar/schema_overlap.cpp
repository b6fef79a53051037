// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/schema_overlap.h"

#include <algorithm>
#include <cmath>

#include "engine/grammar/schema_scalars.h"

namespace slip {

namespace {

constexpr std::size_t kMostSteps = std::size_t{1} << 22;  // values and names compared
constexpr int kDeepest = 64;                              // nested alternatives
constexpr double kLargestInteger = 9e18;                  // that fits 64 bits

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

// The cost of comparing one property.
std::size_t n_names(const SchemaPlace& place) {
  std::size_t n = 1;
  for (const char* list : {"properties", "required"}) n += place.has(list) ? place.json().at(list).size() : 0;
  return n;
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

// Equal values give equal texts: 1 and 1.0, and objects whose keys have another order.
void write_canonical(const SchemaJson& value, std::string& out) {
  const double number = value.is_number_float() ? value.get<double>() : 0.5;
  if (value.is_object()) {
    std::vector<const SchemaJson::object_t::value_type*> members;
    for (const auto& member : value.get_ref<const SchemaJson::object_t&>()) members.push_back(&member);
    std::sort(members.begin(), members.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
    out += '{';
    for (const auto* member : members) {
      out += SchemaJson(member->first).dump() + ':';
      write_canonical(member->second, out);
      out += ',';
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (const SchemaJson& item : value) {
      write_canonical(item, out);
      out += ',';
    }
    out += ']';
  } else if (number == std::floor(number) && std::abs(number) < kLargestInteger) {
    out += std::to_string(static_cast<std::int64_t>(number));
  } else {
    out += value.dump();
  }
}

}  // namespace

bool SchemaOverlap::take_steps(std::size_t n) {
  n_steps_ += n;
  return n_steps_ <= kMostSteps;
}

const SchemaPlace& SchemaOverlap::target_of(const SchemaPlace& reference) {
  const auto known = targets_.find(&reference.json());
  if (known != targets_.end()) return known->second;
  return targets_.emplace(&reference.json(), document_.resolve_all(reference)).first->second;
}

const SchemaOverlap::Values* SchemaOverlap::values_of(const SchemaPlace& place) {
  const auto [found, is_new] = values_.try_emplace(&place.json());
  if (is_new) {
    if (const auto listed = listed_values(place)) {
      Values& values = found->second.emplace();
      for (const SchemaJson* value : *listed) {
        values.kinds |= kind_of(*value);
        write_canonical(*value, values.texts.emplace_back());
      }
      std::sort(values.texts.begin(), values.texts.end());
    }
  }
  return found->second ? &*found->second : nullptr;
}

bool SchemaOverlap::share_a_value(const Values& a, const Values& b) {
  if (!take_steps(a.texts.size() + b.texts.size())) return true;
  auto in_a = a.texts.begin(), in_b = b.texts.begin();
  while (in_a != a.texts.end() && in_b != b.texts.end()) {
    if (*in_a < *in_b) {
      ++in_a;
    } else if (*in_b < *in_a) {
      ++in_b;
    } else {
      return true;
    }
  }
  return false;
}

JsonKinds SchemaOverlap::kinds_of(const SchemaPlace& reference, int depth) {
  if (depth > kDeepest || !take_steps(1)) return kAllKinds;
  const SchemaPlace& place = target_of(reference);
  // A schema that refers to itself counts as any type.
  const auto [found, is_new] = kinds_.try_emplace(&place.json(), kAllKinds);
  if (is_new) found->second = find_kinds(place, depth);
  return found->second;
}

JsonKinds SchemaOverlap::find_kinds(const SchemaPlace& place, int depth) {
  if (place.json().is_boolean()) return place.json().get<bool>() ? kAllKinds : 0;
  JsonKinds kinds = 0;
  if (const Values* values = values_of(place)) return values->kinds;
  for (const char* key : {"anyOf", "oneOf"}) {
    if (!place.has(key) || !place.at(key).json().is_array()) continue;
    const SchemaPlace list = place.at(key);
    for (std::size_t i = 0; i < list.json().size(); ++i) kinds |= kinds_of(list.at(i), depth + 1);
    return kinds;
  }
  const auto types = declared_types(place);
  if (types.empty()) return kAllKinds;
  for (const std::string& type : types) kinds |= kind_named(type);
  return kinds;
}

// Whether `a` requires a property that `b` excludes, or for which both list different values.
bool SchemaOverlap::are_told_apart(const SchemaPlace& a, const SchemaPlace& b) {
  if (!a.has("properties") || !a.json().at("properties").is_object()) return false;
  const SchemaPlace properties = a.at("properties");
  const std::size_t n_steps = n_names(a) + n_names(b);
  for (const auto& [name, schema] : properties.json().items()) {
    if (!take_steps(n_steps)) return false;
    if (!requires_property(a, name)) continue;
    if (!declares(b, name)) {
      if (is_closed(b)) return true;
      continue;
    }
    const Values* of_a = values_of(target_of(properties.at(name)));
    const Values* of_b = values_of(target_of(b.at("properties").at(name)));
    if (of_a != nullptr && of_b != nullptr && !share_a_value(*of_a, *of_b)) return true;
  }
  return false;
}

bool SchemaOverlap::might(const SchemaPlace& a, const SchemaPlace& b) {
  const JsonKinds both = kinds_of(a, 0) & kinds_of(b, 0);
  if (both == 0) return false;
  const SchemaPlace &first = target_of(a), &second = target_of(b);
  const Values *of_a = values_of(first), *of_b = values_of(second);
  if (of_a != nullptr && of_b != nullptr) return share_a_value(*of_a, *of_b);
  const bool objects_only = both == static_cast<JsonKinds>(JsonKind::kObject);
  if (!objects_only || first.has("$ref") || second.has("$ref")) return true;
  return !are_told_apart(first, second) && !are_told_apart(second, first);
}

}  // namespace slip
