// SPDX-License-Identifier: Apache-2.0
#include "cli/response_format_file.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "engine/grammar/grammar_state.h"
#include "tests/checkpoints/temporary_folder.h"

namespace slip::cli {
namespace {

std::string file_of(const std::string& content) {
  static const testing::TemporaryFolder folder;  // of this process: tests run side by side
  return folder.write("response-format.json", content).string();
}

std::string schema_file(const std::string& schema) {
  return file_of("{\n \"type\": \"json_schema\", \"json_schema\": {\"name\": \"n\", \"schema\": " + schema + "}}\n");
}

bool takes(const Grammar& grammar, const std::string& text) {
  GrammarState state = GrammarState::start(grammar);
  return state.advance(grammar, text) && state.is_complete();
}

TEST(ResponseFormatFile, HoldsWhatARequestHolds) {
  const auto grammar = read_response_format_file(
      schema_file(R"({"properties": {"z": {"type": "integer"}, "a": {}}, "required": ["z", "a"]})"));
  EXPECT_TRUE(takes(*grammar, R"({"z":1,"a":null})"));
  EXPECT_FALSE(takes(*grammar, R"({"a":null,"z":1})")) << "in the file's order";
  EXPECT_FALSE(takes(*grammar, R"({"z":true,"a":null})"));
  EXPECT_EQ(read_response_format_file(file_of(R"({"type":"json_object"})")), read_response_format_file("json_object"));
  EXPECT_TRUE(takes(*read_response_format_file("json_object"), R"({"any": [1]})"));
  EXPECT_EQ(read_response_format_file(file_of(R"({"type":"text"})")), nullptr);
}

struct Refusal {
  std::string content;
  std::string way;
};

TEST(ResponseFormatFile, WhatIsWrongIsNamedWithItsFile) {
  const std::string path = file_of("");
  const std::vector<Refusal> cases = {
      {"", ""},
      {"{", ""},
      {"{\"type\":\"text\",\"type\":\"text\"}", ""},
      {"{\"type\":\"text\"},\"x\":{}", ""},
      {"null", "response_format"},
      {"[]", "response_format"},
      {R"({"type":"xml"})", "response_format.type"},
      {R"({"type":"json_schema"})", "response_format.json_schema"},
      {R"({"type":"json_schema","json_schema":{"name":"n","schema":{"properties":{"a":{"not":{}}}}}})",
       "response_format.json_schema.schema.properties.a.not"},
  };
  for (const Refusal& one : cases) {
    try {
      read_response_format_file(file_of(one.content));
      ADD_FAILURE() << "read " << one.content;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(path), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(one.way), std::string::npos) << error.message();
    }
  }
  try {
    read_response_format_file(file_of(R"({"type":"object","properties":{}})"));
    ADD_FAILURE() << "read a schema by itself";
  } catch (const Error& error) {
    EXPECT_NE(error.hint().find("json_schema"), std::string::npos);
  }
  EXPECT_THROW(read_response_format_file("/no/such/format.json"), Error);
}

}  // namespace
}  // namespace slip::cli
