// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <string>

#include "engine/grammar/schema_place.h"

namespace slip::testing {

// Schemas of every supported kind, most of which something satisfies.
class RandomSchema {
 public:
  explicit RandomSchema(std::uint64_t seed) : random_(seed) {}

  SchemaJson document() {
    SchemaJson schema = make(3);
    schema["$defs"]["list"] = {{"type", "object"},
                               {"properties", {{"head", make(1)}, {"tail", {{"$ref", "#/$defs/list"}}}}},
                               {"required", {"head"}},
                               {"additionalProperties", false}};
    return schema;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  bool coin() { return below(2) == 0; }

  SchemaJson make(int depth) {
    switch (below(depth > 0 ? 11 : 6)) {
      case 0:
        return {{"type", "string"}};
      case 1:
        return string();
      case 2:
        return number();
      case 3:
        return {{"type", coin() ? "boolean" : "null"}};
      case 4:
        return {{"enum", {"a\n\"b", 1, true, nullptr, "é", {{"k", {1, 2.5}}}}}};
      case 5:
        return {{"type", {"integer", "null", "string"}}, {"maxLength", 3}, {"minimum", -20}};
      case 6:
        return array(depth);
      case 7:
      case 8:
        return object(depth);
      case 9:
        return {{"anyOf", {make(depth - 1), make(depth - 1), {{"type", "integer"}}}}};
      default:
        return {{"$ref", "#/$defs/list"}, {"description", "a list"}};
    }
  }

  SchemaJson string() {
    static const std::vector<std::string> patterns = {"^[a-c]{2,4}$", "x+y?", "^(ab|c)*d$", "[^a-z]$", "^\\d+\\.\\w$"};
    SchemaJson schema = {{"type", "string"}};
    if (coin()) schema["pattern"] = patterns[below(patterns.size())];
    if (coin()) schema["maxLength"] = 4 + below(5);
    if (coin()) schema["minLength"] = below(5);
    return schema;
  }

  SchemaJson number() {
    static const std::vector<SchemaJson> multiples = {1, 2, 3, 7, 0.5, 0.01, 1.5};
    const bool integer = coin();
    SchemaJson schema = {{"type", integer ? "integer" : "number"}};
    const int low = static_cast<int>(below(300)) - 150;
    const double part = integer ? 0 : static_cast<double>(below(8)) / 8;
    if (coin()) schema[coin() ? "minimum" : "exclusiveMinimum"] = low + part;
    if (coin()) schema[coin() ? "maximum" : "exclusiveMaximum"] = low + 2 + static_cast<int>(below(200));
    if (below(4) == 0) schema["multipleOf"] = multiples[below(multiples.size())];
    if (below(4) == 0) schema["nullable"] = coin();
    return schema;
  }

  SchemaJson array(int depth) {
    SchemaJson schema = {{"type", "array"}};
    const std::size_t n_prefix = below(3);
    for (std::size_t i = 0; i < n_prefix; ++i) schema["prefixItems"].push_back(make(depth - 1));
    if (below(4) > 0) schema["items"] = coin() && n_prefix > 0 ? SchemaJson(false) : make(depth - 1);
    if (coin()) schema["minItems"] = below(n_prefix + 1);
    if (coin()) schema["maxItems"] = n_prefix + below(4);
    return schema;
  }

  SchemaJson object(int depth) {
    static const std::vector<std::string> names = {"a", "b", "ab", "quote\"", "é", ""};
    SchemaJson schema = {{"type", "object"}};
    for (const std::string& name : names) {
      if (coin()) continue;
      schema["properties"][name] = make(depth - 1);
      if (coin()) schema["required"].push_back(name);
    }
    if (below(3) > 0) schema["additionalProperties"] = coin() ? SchemaJson(false) : make(0);
    return schema;
  }

  std::mt19937_64 random_;
};

}  // namespace slip::testing
