// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/schema_compiler.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/engine/grammar/grammar_walks.h"
#include "tests/engine/grammar/random_schema.h"
#include "tests/engine/grammar/schema_validator.h"

namespace slip {
namespace {

using testing::accepts;
using testing::grammar_of;
using testing::SchemaValidator;

struct Case {
  const char* schema;
  std::vector<const char*> right, wrong;
};

TEST(SchemaCompilerTest, EachKeyword) {
  const std::vector<Case> cases = {
      {R"({"type": "string"})", {R"("")", R"("a\n\u00e9\/")", R"("é😀")"}, {"1", R"("a)", "\"\n\"", R"("\ud83d")"}},
      {R"({"type": ["boolean", "null"]})", {"true", "null"}, {"0", "tru", "nul"}},
      {R"({"minLength": 2, "maxLength": 3})",
       {R"("ab")", R"("é😀c")", R"("\n\u001f\\")"},
       {R"("a")", R"("abcd")", R"("\ud83d\ude00")", "12"}},
      {R"({"type": "string", "pattern": "^[a-z]+$", "maxLength": 2})", {R"("ab")"}, {R"("abc")", R"("A")", R"("")"}},
      {R"({"type": "string", "format": "date"})", {R"("2024-02-28")"}, {R"("2024-02-30")", R"("24-1-1")"}},
      {R"({"type": "string", "format": "date-time"})", {R"("2024-12-31T23:59:59.5Z")"}, {R"("2024-12-31")"}},
      {R"({"type": "string", "format": "uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"}},
      {R"({"type": "string", "format": "ipv4"})", {R"("192.168.0.1")"}, {R"("256.1.1.1")", R"("1.1.1")"}},
      {R"({"type": "string", "format": "email"})", {R"("a.b@ex-1.org")"}, {R"("a@b")", R"("@x.y")"}},
      {R"({"type": "string", "format": "uri"})",
       {R"("https://example.org")", R"("http://localhost:8080/a/b%20c?x=1&y=/#top")", R"("ftp://files.example.org/")",
        R"("s3://bucket")", R"("https://a.b-c.example.co/~x;y=1,2")"},
       {R"("example.org")", R"("https:/example.org")", R"("https://")", R"("https://a b")", R"("https://a/%2")",
        R"("https://a/é")", R"("https://-a.org")", R"("1https://a")", R"("https://a/#b#c")", R"("https://a/[")"}},
      {R"({"type": "string", "format": "uri", "maxLength": 12})", {R"("http://ab.cd")"}, {R"("http://ab.cde")"}},
      {R"({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083})", {R"("http://ab.cd")"}, {R"("")"}},
      {R"({"type": "integer", "multipleOf": 7})", {"0", "7", "-14", "700000000000007"}, {"1", "8", "7.0", "07", "7e1"}},
      {R"({"type": "number", "multipleOf": 0.25, "minimum": 1})",
       {"1", "1.0", "1.25", "7.5"},
       {"0.75", "1.1", "1.250"}},
      {R"({"multipleOf": 60, "maximum": 120})", {"0", "60", "120", "-60"}, {"180", "30", "60.0"}},
      {R"({"type": "integer", "multipleOf": 2.5})", {"0", "5", "10"}, {"2", "2.5", "25.0"}},
      {R"({"type": "string", "maxLength": 1, "nullable": true})", {R"("a")", "null"}, {"1", R"("ab")"}},
      {R"({"type": ["integer", "null"], "nullable": true})", {"1", "null"}, {"true"}},
      {R"({"type": "integer", "nullable": false})", {"1"}, {"null"}},
      {R"({"minimum": 1, "nullable": true})", {"1", "null"}, {"0", R"("a")"}},
      {R"({"enum": ["a", null], "type": "string", "nullable": true})", {R"("a")", "null"}, {R"("b")"}},
      {R"({"enum": ["a"], "type": "string", "nullable": true})", {R"("a")"}, {"null"}},
      {R"({"anyOf": [{"type": "integer", "nullable": true}], "nullable": false})", {"1", "null"}, {"true"}},
      {R"({"type": "integer", "minimum": -3, "maximum": 12})", {"-3", "0", "12"}, {"-4", "13", "1.0", "120"}},
      {R"({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5})", {"0.5", "0.001"}, {"0", "0.51", "-1", "5e-1"}},
      {R"({"type": "number", "minimum": 1, "exclusiveMinimum": 1})", {"1.5"}, {"1"}},
      {R"({"enum": ["a\"", 1.5, {"b": [null]}]})", {R"("a\"")", "1.5", R"({"b":[null]})"}, {R"("a")", "1.50", "null"}},
      {R"({"type": "integer", "enum": [1, "1", 2.5]})", {"1"}, {R"("1")", "2.5"}},
      {R"({"const": "x"})", {R"("x")"}, {R"("y")"}},
      {R"({"type": "array"})", {"[]", "[ ]", R"([1, "a", {}])"}, {"[1,]", "[", "{}"}},
      {R"({"items": {"type": "integer"}, "minItems": 2, "maxItems": 3})", {"[1,2]", "[1,2,3]"}, {"[1]", "[1,2,3,4]"}},
      {R"({"items": {"type": "null"}, "maxItems": 0})", {"[]"}, {"[null]"}},
      {R"({"items": {"type": "null"}, "minItems": 1})", {"[null]", "[null,null]"}, {"[]"}},
      {R"({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false})",
       {"[]", "[1]", R"([1,"a"])"},
       {R"(["a"])", R"([1,"a",2])"}},
      {R"({"prefixItems": [{"type": "integer"}], "items": {"type": "null"}, "minItems": 3, "maxItems": 4})",
       {"[1,null,null]", "[1,null,null,null]"},
       {"[1]", "[1,null]", "[1,null,null,null,null]"}},
      {R"({"prefixItems": [true, true, true], "maxItems": 1})", {"[]", "[1]"}, {"[1,2]"}},
      {R"({"type": "object"})", {"{}", R"({"a":1})"}, {"[]"}},
      {R"({"type": "object", "additionalProperties": false})", {"{}", "{ }"}, {R"({"a":1})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})", {R"({"a":1,"b":2})"}, {R"({"a":"b"})"}},
      {R"({"properties": {"b": {"type": "integer"}, "a": {"type": "null"}}, "required": ["a"]})",
       {R"({"a":null})", R"({"b":1,"a":null})"},
       {"{}", R"({"b":1})", R"({"a":null,"b":1})", R"({"a":null,"c":1})"}},
      {R"({"properties": {"a": true, "b": true, "c": true}, "required": ["b"]})",
       {R"({"b":1})", R"({"a":1,"b":2})", R"({"b":1,"c":2})", R"({"a":[],"b":{},"c":null})"},
       {R"({"a":1})", R"({"a":1,"c":2})", R"({,"b":1})", R"({"b":1,})"}},
      {R"({"properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"a":null})", R"({"b":1})", R"({"a":null,"b":1,"aa":2,"":3})"},
       {R"({"a":1})", R"({"b":1,"a":1})", R"({"\u0061":1})", R"({"b":null})"}},
      {R"({"type": "object", "required": ["x"]})", {R"({"x":1})", R"({"x":1,"y":2})"}, {"{}", R"({"y":2})"}},
      {R"({"properties": {"a": false, "b": true}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
      {R"({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]})",
       {"1", R"(["a"])"},
       {"[1]"}},
      {R"({"oneOf": [{"type": "integer"}, {"type": "string"}]})", {"1", R"("a")"}, {"null"}},
      {R"({"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}, "v": {"type": "integer"}}, "required": ["k"]},
                     {"type": "object", "properties": {"k": {"enum": ["b"]}}, "required": ["k"]}]})",
       {R"({"k":"a","v":1})", R"({"k":"b"})"},
       {R"({"k":"b","v":1})", R"({"k":"c"})"}},
      {R"({"allOf": [{"type": "integer"}], "title": "t"})", {"1"}, {"null"}},
      {R"({"$defs": {"n": {"properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
                           "required": ["v", "next"]}}, "$ref": "#/$defs/n"})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
       {R"({"v":1})", R"({"v":1,"next":1})"}},
      {R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[]]]"}, {"[1]"}},
      {R"({"properties": {"a/b": {"const": 1}, "c": {"$ref": "#/properties/a~1b"}}})", {R"({"c":1})"}, {R"({"c":2})"}},
      {R"({"properties": {"a %/b": {"const": 1}, "c": {"$ref": "#/properties/a%20%25~1b"}}})",
       {R"({"c":1})"},
       {R"({"c":2})"}},
      {"true", {"1", "{}", "[[]]"}, {"", "x"}},
      {"{}", {"1", R"("a")"}, {"tru"}},
  };
  for (const Case& one : cases) {
    const auto grammar = grammar_of(one.schema);
    const SchemaValidator validator(nlohmann::json::parse(one.schema));
    for (const char* text : one.right) {
      EXPECT_TRUE(accepts(*grammar, text)) << one.schema << " " << text;
      if (std::string(one.schema).find("format") == std::string::npos) {
        EXPECT_TRUE(validator.is_valid(nlohmann::json::parse(text))) << one.schema << " " << text;
      }
    }
    for (const char* text : one.wrong) EXPECT_FALSE(accepts(*grammar, text)) << one.schema << " " << text;
  }
}

struct Refusal {
  const char* schema;
  const char* path;
};

TEST(SchemaCompilerTest, WhatIsNotSupportedIsRefusedByItsPath) {
  const std::vector<Refusal> cases = {
      {R"({"properties": {"a": {"type": "string", "format": "color"}}})", "schema.properties.a.format"},
      {R"({"type": "array", "items": {"anyOf": [true, {"not": {}}]}})", "schema.items.anyOf[1].not"},
      {R"({"type": "array", "uniqueItems": true})", "schema.uniqueItems"},
      {R"({"type": "integer", "multipleOf": 0})", "schema.multipleOf"},
      {R"({"type": "integer", "multipleOf": -2})", "schema.multipleOf"},
      {R"({"type": "integer", "multipleOf": "2"})", "schema.multipleOf"},
      {R"({"type": "number", "multipleOf": 0.0000001})", "schema.multipleOf"},
      {R"({"type": "number", "multipleOf": 100000})", "schema.multipleOf"},
      {R"({"type": "number", "multipleOf": 1e300})", "schema.multipleOf"},
      {R"({"type": "integer", "enum": [2], "multipleOf": 2})", "schema.multipleOf"},
      {R"({"type": "string", "nullable": 1})", "schema.nullable"},
      {R"({"$ref": "#", "nullable": true})", "schema.nullable"},
      {R"({"anyOf": [true], "nullable": true})", "schema.nullable"},
      {R"({"type": "object", "patternProperties": {}})", "schema.patternProperties"},
      {R"({"type": "text"})", "schema.type"},
      {R"({"type": ["string", 1]})", "schema.type[1]"},
      {R"({"minLength": -1})", "schema.minLength"},
      {R"({"minLength": 1.5})", "schema.minLength"},
      {R"({"type": "number", "minimum": "1"})", "schema.minimum"},
      {R"({"type": "number", "minimum": 1e300})", "schema.minimum"},
      {R"x({"type": "string", "pattern": "(?=a)"})x", "schema.pattern"},
      {R"({"enum": []})", "schema.enum"},
      {R"({"enum": ["a"], "minLength": 1})", "schema.minLength"},
      {R"({"anyOf": []})", "schema.anyOf"},
      {R"({"anyOf": [true], "type": "string"})", "schema.type"},
      {R"({"allOf": [true, true]})", "schema.allOf"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "schema.oneOf[1]"},
      {R"({"oneOf": [{"type": "object"}, {"type": "object"}]})", "schema.oneOf[1]"},
      {R"({"$ref": "http://example.org/s"})", "schema.$ref"},
      {R"({"$ref": "#/$defs/none"})", "schema.$ref"},
      {R"({"$ref": "#/$defs/a%2"})", "schema.$ref"},
      {R"({"$ref": "#/$defs/a%zz", "$defs": {"a%zz": true}})", "schema.$ref"},
      {R"({"$ref": "#", "minLength": 1})", "schema.minLength"},
      {R"({"properties": []})", "schema.properties"},
      {R"({"properties": {"a": 1}})", "schema.properties.a"},
      {R"({"properties": {"a": true}, "required": ["b"], "additionalProperties": false})", "schema.required[0]"},
      {R"({"type": "array", "items": [true]})", "schema.items"},
      {R"({"properties": {"a": {"$id": "x"}}})", "schema.properties.a.$id"},
      {R"([])", "schema"},
      // What nothing satisfies, or leads nowhere.
      {R"(false)", "schema"},
      {R"({"type": "integer", "minimum": 2, "maximum": 1})", "schema"},
      {R"({"items": true, "minItems": 2, "maxItems": 1})", "schema"},
      {R"({"type": "string", "format": "uri", "minLength": 400, "maxLength": 300})", "schema"},
      {R"({"type": "integer", "minimum": 1, "maximum": 6, "multipleOf": 7})", "schema"},
      {R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})", "schema"},
      {R"({"$ref": "#"})", "schema"},
      {R"({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}, true]}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})",
       "schema"},
      // What is too large.
      {R"({"type": "string", "maxLength": 100000})", "schema.maxLength"},
      {R"({"type": "integer", "multipleOf": 9973})", "schema.multipleOf"},
  };
  for (const Refusal& one : cases) {
    try {
      grammar_of(one.schema);
      ADD_FAILURE() << one.schema;
    } catch (const Error& error) {
      EXPECT_EQ(error.param(), one.path) << one.schema << ": " << error.message();
      EXPECT_TRUE(error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kUnsupported);
    }
  }
}

// A part that cannot be satisfied is never begun, since a model could not leave it.
TEST(SchemaCompilerTest, ImpossiblePartsAreNeverBegun) {
  const auto grammar = grammar_of(
      R"({"$defs": {"loop": {"properties": {"x": {"$ref": "#/$defs/loop"}}, "required": ["x"]}},
          "properties": {"a": {"$ref": "#/$defs/loop"}, "b": {"type": "array", "items": {"$ref": "#/$defs/loop"}}}})");
  GrammarState state = GrammarState::start(*grammar);
  EXPECT_FALSE(state.advance(*grammar, R"({"a)"));
  EXPECT_TRUE(accepts(*grammar, R"({"b":[]})"));
  EXPECT_FALSE(accepts(*grammar, R"({"b":[{)"));
}

// At every step some byte is allowed, and the result is valid by the validator. The grammar also accepts two other
// layouts of the same document.
TEST(SchemaCompilerTest, WhatTheGrammarWritesIsValid) {
  std::mt19937_64 random(17);
  int n_documents = 0, n_laid_out = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const SchemaJson schema = testing::RandomSchema(seed).document();
    std::shared_ptr<const Grammar> grammar;
    try {
      grammar = compile_schema(schema, "schema");
    } catch (const Error& error) {
      continue;  // nothing satisfies it
    }
    const SchemaValidator validator(nlohmann::json::parse(schema.dump()));
    for (int i = 0; i < 6; ++i) {
      const std::string text = testing::random_document(*grammar, random, random() % 60);
      ASSERT_FALSE(text.empty()) << "a dead end in " << schema;
      const auto document = SchemaJson::parse(text, nullptr, false);
      ASSERT_FALSE(document.is_discarded()) << text;
      ASSERT_TRUE(validator.is_valid(nlohmann::json::parse(text))) << schema << "\n" << text;
      ++n_documents;
      // Numbers may be written differently there, and limits may require them without an exponent.
      if (text.find_first_of("eE.") != std::string::npos || text.find("000") != std::string::npos) continue;
      EXPECT_TRUE(accepts(*grammar, document.dump())) << schema << "\n" << document;
      EXPECT_TRUE(accepts(*grammar, document.dump(2))) << schema << "\n" << document.dump(2);
      ++n_laid_out;
    }
  }
  EXPECT_GT(n_documents, 500);
  EXPECT_GT(n_laid_out, 100);
}

TEST(SchemaCompilerNegative, TheValidatorTellsSchemasApart) {
  std::mt19937_64 random(18);
  int n_noticed = 0, n_documents = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto grammar = compile_schema(testing::RandomSchema(seed).document(), "schema");
    const SchemaJson other = testing::RandomSchema(seed + 1000).document();
    const SchemaValidator validator(nlohmann::json::parse(other.dump()));
    const std::string text = testing::random_document(*grammar, random);
    n_noticed += validator.is_valid(nlohmann::json::parse(text)) ? 0 : 1;
    ++n_documents;
  }
  EXPECT_GT(n_noticed, n_documents / 2);
}

TEST(SchemaCompilerTest, SchemasMadeToBeSlowAreRefusedInTime) {
  // References that double at every step, a chain far deeper than documents nest, and a wide object.
  SchemaJson doubling, chain, wide;
  for (int i = 0; i < 40; ++i) {
    const SchemaJson next = {{"$ref", "#/$defs/" + std::to_string(i + 1)}};
    doubling["$defs"][std::to_string(i)] = {{"anyOf", {next, {{"$ref", next["$ref"]}, {"title", "again"}}}}};
  }
  doubling["$defs"]["40"] = {{"type", "integer"}};
  doubling["$ref"] = "#/$defs/0";
  for (int i = 0; i < 3000; ++i) {
    chain["$defs"][std::to_string(i)] = {
        {"type", "array"}, {"items", {{"$ref", "#/$defs/" + std::to_string(i + 1)}}}, {"minItems", 1}};
    wide["properties"]["a_rather_long_name_" + std::to_string(i)] = {{"type", "string"}, {"maxLength", 40}};
  }
  chain["$defs"]["3000"] = {{"type", "null"}};
  chain["$ref"] = "#/$defs/0";
  EXPECT_THROW(compile_schema(doubling, "schema"), Error);
  EXPECT_THROW(compile_schema(chain, "schema"), Error);
  EXPECT_THROW(compile_schema(wide, "schema"), Error);
}

}  // namespace
}  // namespace slip
