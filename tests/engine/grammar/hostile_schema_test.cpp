// SPDX-License-Identifier: Apache-2.0
// Expensive schemas: each is refused with its path, or compiled and then followed for a while.
#include <gtest/gtest.h>

#include <functional>

#include "common/error.h"
#include "engine/grammar/schema_overlap.h"
#include "engine/grammar/token_masks.h"
#include "tests/engine/grammar/grammar_walks.h"

namespace slip {
namespace {

using testing::accepts;
using testing::grammar_of;

std::string numbers(int first, int last) {
  std::string text;
  for (int i = first; i < last; ++i) text += (i == first ? "" : ",") + std::to_string(i);
  return "[" + text + "]";
}

std::string list_of(int n, const std::function<std::string(int)>& one) {
  std::string text;
  for (int i = 0; i < n; ++i) text += (i == 0 ? "" : ",") + one(i);
  return text;
}

std::string pattern(const std::string& text) {
  return R"({"type": "string", "pattern": ")" + text + "\"}";
}

std::string repeated(const std::string& text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

// A class of `n` characters, no two adjacent.
std::string scattered(int n) {
  std::string text = "[";
  for (int i = 0; i < n; ++i) {
    const unsigned point = 0x3400U + 2U * static_cast<unsigned>(i);
    for (const unsigned byte : {0xE0 | point >> 12, 0x80 | (point >> 6 & 0x3F), 0x80 | (point & 0x3F)}) {
      text.push_back(static_cast<char>(byte));
    }
  }
  return text + "]";
}

// The refusal's message; empty when it compiled, and answers were followed or ended with the same kind of error.
std::string refusal_of(const std::string& schema) {
  EXPECT_LE(schema.size(), std::size_t{1} << 16) << "more than a request may send";
  try {
    const auto grammar = grammar_of(schema);
    std::vector<std::string> owned;
    for (int byte = 0; byte < 256; ++byte) owned.emplace_back(1, static_cast<char>(byte));
    owned.insert(owned.end(), {"[[", "[ [", ",\"", ", ", "\":", "\",\"", "{\"", "]]", "  ", "\n  ", "aa", "ab"});
    TokenMasks masks(std::vector<std::string_view>(owned.begin(), owned.end()));
    std::mt19937_64 random(7);
    for (int i = 0; i < 2; ++i) {
      GrammarState state = GrammarState::start(*grammar);
      for (int length = 0; length < 60 && !state.is_over(); ++length) {
        const TokenMask& mask = masks.mask(*grammar, state);
        std::vector<std::string> allowed;
        for (std::size_t id = 0; id < owned.size(); ++id) {
          if (mask.allows(static_cast<std::int32_t>(id))) allowed.push_back(owned[id]);
        }
        if (allowed.empty()) return "a dead end";
        if (!state.advance(*grammar, allowed[random() % allowed.size()])) return "a mask that allows too much";
      }
    }
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kUnsupported);
    EXPECT_FALSE(error.param().empty()) << error.message();
    return error.message();
  }
  return {};
}

TEST(HostileSchema, WhatIsTooLargeIsRefused) {
  const std::vector<std::string> schemas = {
      R"({"type": "string", "minLength": 1000000})",
      R"({"type": "string", "maxLength": 1073741824})",
      R"({"type": "string", "minLength": 3000, "maxLength": 4000, "pattern": "a.*b"})",
      pattern("(a|b)*a(a|b){15}"),
      pattern("^(([a-z]{1,50}){1,50}){1,50}$"),
      pattern("^((){10000}){10000}$"),
      pattern("^(a?){2000}a{2000}$"),
      pattern("[^a]{300}[^b]{300}"),
      // One node a copy, but a long class that was parsed again for each.
      pattern("^[" + std::string(60000, 'a') + "]{10000}$"),
      pattern("^[" + repeated(R"(\\W)", 20000) + "]{10000}$"),
      pattern(scattered(9000) + "{12}"),
      // Few nodes, one of which has thousands of edges that belong to all state sets.
      pattern("^((a|b)*a(a|b){11}|(" + scattered(9000) + "|a|b)*Z)$"),
      R"({"type": "array", "prefixItems": [)" + list_of(20000, [](int) { return "{}"; }) + "]}",
      R"({"anyOf": [)" + list_of(4000, [](int i) { return R"({"const":)" + std::to_string(i) + "}"; }) + "]}",
      // A value that may be read in 2^40 ways.
      R"({"$defs": {)" +
          list_of(40,
                  [](int i) {
                    const std::string next = R"("$ref": "#/$defs/a)" + std::to_string(i + 1) + "\"";
                    return "\"a" + std::to_string(i) + R"(": {"anyOf": [{)" + next + "}, {" + next +
                           R"(, "title": "again"}]})";
                  }) +
          R"(, "a40": {}}, "$ref": "#/$defs/a0"})",
      R"({"$defs": {)" +
          list_of(1500,
                  [](int i) {
                    return "\"d" + std::to_string(i) + R"(":{"$ref":"#/$defs/d)" + std::to_string((i + 1) % 1500) +
                           "\"}";
                  }) +
          R"(}, "$ref": "#/$defs/d0"})",
      R"({"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}, "minItems": 1}}, "$ref": "#/$defs/n"})",
      // A state for each remainder and digit, and tables of remainders that are made again and again.
      R"({"type": "integer", "multipleOf": 9973})",
      R"({"type": "array", "prefixItems": [)" +
          list_of(500, [](int i) { return R"({"multipleOf": 10000, "maximum": )" + std::to_string(i) + "}"; }) + "]}",
  };
  for (const std::string& schema : schemas) EXPECT_NE(refusal_of(schema), "") << schema.substr(0, 200);
}

TEST(HostileSchema, WhatIsOnlyOddIsFollowed) {
  const std::vector<std::string> schemas = {
      R"({"type": "array", "minItems": 1073741823, "maxItems": 1073741824})",
      R"({"type": "string", "maxLength": 4000})",
      R"({"enum": )" + numbers(0, 11000) + "}",
      R"({"enum": [)" + list_of(3000, [](int i) { return "\"value number " + std::to_string(i) + "\""; }) + "]}",
      R"({"properties": {)" + list_of(900, [](int i) { return "\"p" + std::to_string(i) + "\":{}"; }) + "}}",
      R"({"$defs": {"d": {"type": "array", "prefixItems": [{"$ref": "#/$defs/d"}, {"$ref": "#/$defs/d"}]}},
          "$ref": "#/$defs/d"})",
      R"({"oneOf": [)" + list_of(64, [](int i) { return R"({"enum":)" + numbers(i * 100, i * 100 + 100) + "}"; }) +
          "]}",
      pattern("^(.*a){12}$"),
      pattern("(x+x+)+y"),
      pattern("^[A-Za-z0-9._%+-]{1,64}$"),
      R"({"type": "integer", "multipleOf": 1999})",
      R"({"type": "array", "prefixItems": [)" +
          list_of(12,
                  [](int i) {
                    return R"({"type": "string", "format": "uri", "maxLength": )" + std::to_string(20 + i) + "}";
                  }) +
          "]}",
  };
  for (const std::string& schema : schemas) EXPECT_EQ(refusal_of(schema), "") << schema.substr(0, 200);
}

// Ambiguous at every level: an answer goes on until it has too many parses, then ends with that error.
TEST(HostileSchema, TooManyWaysEndAnAnswer) {
  const auto grammar = grammar_of(R"({"$defs": {"n": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/n"}},
      {"type": "array", "items": {"$ref": "#/$defs/n"}, "title": "again"}]}}, "$ref": "#/$defs/n"})");
  GrammarState state = GrammarState::start(*grammar);
  EXPECT_TRUE(state.advance(*grammar, "[[[[["));
  EXPECT_THROW(state.advance(*grammar, std::string(20, '[')), Error);
}

// Comparing every alternative of this with every other, value by value, took hours.
TEST(HostileSchema, OneOfIsComparedWithinBounds) {
  const std::string schema =
      R"({"$defs": {"e": {"enum": )" + numbers(0, 2000) + R"(}, "f": {"enum": )" + numbers(1999, 4000) +
      R"(}}, "oneOf": [)" +
      list_of(60,
              [](int i) {
                const std::string shared = list_of(12, [i](int j) {
                  return "\"p" + std::to_string(j) + R"(":{"$ref":"#/$defs/)" + (i % 2 == 0 ? "e" : "f") + "\"}";
                });
                return R"({"type":"object","properties":{)" + shared + R"(,"z":{"const":)" + std::to_string(i) +
                       R"(}},"required":["z",)" + list_of(12, [](int j) { return "\"p" + std::to_string(j) + "\""; }) +
                       "]}";
              }) +
      "]}";
  EXPECT_NE(refusal_of(schema).find("use anyOf"), std::string::npos);
}

// Every pair of alternatives followed both chains of references again, and every reference walks its path.
TEST(HostileSchema, ReferencesOfAOneOfAreFollowedOnce) {
  constexpr std::size_t kAlternatives = 64, kChain = 60;
  const auto definition = [](int i) {
    const std::string name = "\"d" + std::to_string(i) + "\":";
    const bool is_last = i + 1 == static_cast<int>(kChain);
    return name + (is_last ? R"({"type":"null"})" : R"({"$ref":"#/$defs/d)" + std::to_string(i + 1) + "\"}");
  };
  const SchemaJson schema =
      SchemaJson::parse(R"({"$defs":{)" + list_of(kChain, definition) + R"(},"oneOf":[)" +
                        list_of(kAlternatives, [](int) { return R"({"$ref":"#/$defs/d0"})"; }) + "]}");
  const SchemaDocument document(SchemaPlace(schema, "schema"));
  const SchemaPlace list = document.root().at("oneOf");
  SchemaOverlap overlap(document);
  for (std::size_t j = 1; j < kAlternatives; ++j) {
    for (std::size_t i = 0; i < j; ++i) EXPECT_TRUE(overlap.might(list.at(i), list.at(j)));
  }
  EXPECT_EQ(document.n_references_read(), kAlternatives + kChain - 1);
}

// A name in "required" alone has the schema of additionalProperties, which was compiled again for each such name: nodes
// for 400 copies of 120 items are too many.
TEST(HostileSchema, AdditionalPropertiesAreCompiledOnce) {
  const std::string items = list_of(120, [](int i) { return R"({"const":)" + std::to_string(i) + "}"; });
  const auto name = [](int i) { return "\"n" + std::to_string(i) + "\""; };
  const std::string schema = R"({"type":"object","additionalProperties":{"type":"array","prefixItems":[)" + items +
                             R"(],"minItems":120,"maxItems":120},"required":[)" + list_of(400, name) + "]}";
  EXPECT_EQ(refusal_of(schema), "");
}

TEST(HostileSchema, NamesThatShareARuleKeepTheirSchema) {
  const auto grammar = grammar_of(R"({"properties": {"a": {"const": 1}}, "required": ["x", "a", "y", "z"],
      "additionalProperties": {"type": "array", "items": {"enum": [2, 3]}, "minItems": 2, "maxItems": 3}})");
  EXPECT_TRUE(accepts(*grammar, R"({"a":1,"x":[2,3],"y":[3,3,2],"z":[2,2]})"));
  EXPECT_TRUE(accepts(*grammar, R"({"a":1,"x":[2,3],"y":[3,3,2],"z":[2,2],"more":[3,3]})"));
  for (const char* wrong : {R"({"a":1,"x":[2,3],"y":[3,3,2],"z":[2]})", R"({"a":1,"x":[2,3],"y":[3],"z":[2,2]})",
                            R"({"a":1,"x":[2,3],"y":[3,3]})", R"({"a":1,"x":[2,3],"y":[2,2],"z":[2,2,2,2]})",
                            R"({"a":1,"x":[2,3],"y":1,"z":[2,2]})"}) {
    EXPECT_FALSE(accepts(*grammar, wrong)) << wrong;
  }
}

// Alternatives that list one object with its keys in another order are one alternative.
TEST(HostileSchema, OneOfKnowsAnObjectByItsKeysInAnyOrder) {
  EXPECT_NE(refusal_of(R"({"oneOf": [{"const": {"a": 1, "b": [2]}}, {"enum": [3, {"b": [2], "a": 1.0}]}]})"), "");
  EXPECT_EQ(refusal_of(R"({"oneOf": [{"const": {"a": 1, "b": [2]}}, {"enum": [3, {"b": [1], "a": 1.0}]}]})"), "");
}

}  // namespace
}  // namespace slip
