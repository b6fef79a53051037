// SPDX-License-Identifier: Apache-2.0
#include "server/openai/response_format.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "server/openai/call.h"

namespace slip {
namespace {

ResponseFormat format_of(const std::string& json) {
  return parse_request(Endpoint::kChat,
                       R"({"messages":[{"role":"user","content":"hi"}],"response_format":)" + json + "}", {})
      .format;
}

std::string schema_format(const std::string& schema) {
  return R"({"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":)" + schema + "}}";
}

TEST(ResponseFormatTest, ReadsTheThreeTypes) {
  EXPECT_EQ(format_of("null").kind, ResponseFormat::Kind::kText);
  EXPECT_EQ(format_of(R"({"type":"text"})").kind, ResponseFormat::Kind::kText);
  EXPECT_EQ(format_of(R"({"type":"json_object"})").kind, ResponseFormat::Kind::kJsonObject);
  EXPECT_EQ(format_of(R"({"type":"json_object","json_schema":null})").kind, ResponseFormat::Kind::kJsonObject);
  const auto format = format_of(schema_format(R"({"properties": {"z": {}, "a": {}, "m": {}}})"));
  EXPECT_EQ(format.kind, ResponseFormat::Kind::kJsonSchema);
  EXPECT_EQ(format.schema, R"({"properties":{"z":{},"a":{},"m":{}}})") << "in the client's order";
  EXPECT_EQ(parse_request(Endpoint::kCompletion, R"({"prompt":"x","response_format":{"type":"json_object"}})", {})
                .format.kind,
            ResponseFormat::Kind::kJsonObject);
}

struct Refusal {
  std::string json;
  std::string field;
};

TEST(ResponseFormatTest, WhatIsWrongIsNamed) {
  const std::vector<Refusal> cases = {
      {"[]", "response_format"},
      {"{}", "response_format.type"},
      {R"({"type":"xml"})", "response_format.type"},
      {R"({"type":"text","schema":{}})", "response_format.schema"},
      {R"({"type":"json_object","json_schema":{"name":"n","schema":{}}})", "response_format.json_schema"},
      {R"({"type":"json_schema"})", "response_format.json_schema"},
      {R"({"type":"json_schema","json_schema":[]})", "response_format.json_schema"},
      {R"({"type":"json_schema","json_schema":{"schema":{}}})", "response_format.json_schema.name"},
      {R"({"type":"json_schema","json_schema":{"name":"a b","schema":{}}})", "response_format.json_schema.name"},
      {R"({"type":"json_schema","json_schema":{"name":"n"}})", "response_format.json_schema.schema"},
      {R"({"type":"json_schema","json_schema":{"name":"n","schema":true}})", "response_format.json_schema.schema"},
      {R"({"type":"json_schema","json_schema":{"name":"n","schema":{},"strict":1}})",
       "response_format.json_schema.strict"},
      {R"({"type":"json_schema","json_schema":{"name":"n","schema":{},"x":1}})", "response_format.json_schema.x"},
      {schema_format("{\"title\":\"" + std::string(70'000, 'x') + "\"}"), "response_format.json_schema.schema"},
  };
  for (const Refusal& one : cases) {
    try {
      format_of(one.json);
      ADD_FAILURE() << one.json;
    } catch (const Error& error) {
      EXPECT_EQ(error.param(), one.field) << one.json.substr(0, 200);
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    }
  }
}

TEST(GrammarCacheTest, OneSchemaIsCompiledOnce) {
  GrammarCache cache;
  EXPECT_EQ(cache.grammar({}), nullptr);
  EXPECT_EQ(cache.grammar(format_of(R"({"type":"json_object"})")), json_object_grammar());
  const auto first = format_of(schema_format(R"({"type":"integer"})"));
  const auto grammar = cache.grammar(first);
  EXPECT_EQ(cache.grammar(first), grammar);
  EXPECT_NE(cache.grammar(format_of(schema_format(R"({"type":"string"})"))), grammar);
  for (int i = 0; i < 100; ++i) {
    cache.grammar(format_of(schema_format(R"({"const":)" + std::to_string(i) + "}")));
    EXPECT_EQ(cache.grammar(first), grammar) << "what is used stays";
  }
  const auto oldest = format_of(schema_format(R"({"const":0})"));
  const auto again = cache.grammar(oldest);
  EXPECT_EQ(cache.grammar(oldest), again);
}

TEST(GrammarCacheTest, AnUnsupportedKeywordIsNamedByItsPath) {
  GrammarCache cache;
  try {
    cache.grammar(format_of(schema_format(R"({"properties":{"a":{"type":"string","format":"color"}}})")));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.param(), "response_format.json_schema.schema.properties.a.format");
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace slip
