// SPDX-License-Identifier: Apache-2.0
// Bodies of chats that are no request: malformed, too deep, of too many values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/http/reply.h"
#include "tests/server/openai/call_fixture.h"

namespace slip {
namespace {

using ::testing::HasSubstr, ::testing::Not;
using testing::kMessages;

Error fault_of(const std::string& body) {
  return testing::fault_of_body(Endpoint::kChat, body);
}

// S6: what a parser must survive.
TEST(HostileCall, MalformedJsonIsRefused) {
  const std::string deep(100'000, '[');
  const std::string cases[] = {
      "",
      "null",
      "[]",
      "7",
      "{",
      deep,
      R"({"messages":)" + deep,
      R"({"a":1,"a":2})",
      R"({"messages":[{"role":"user","content":"x","role":"system"}]})",
      R"({"temperature":1e400,)" + kMessages + "}",
      R"({"temperature":NaN,)" + kMessages + "}",
      R"({"temperature":Infinity,)" + kMessages + "}",
      R"({"messages":[{"role":"user","content":"\ud800"}]})",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]}",
      "{" + kMessages + "} trailing",
      "\xef\xbb\xbf",
  };
  for (const auto& body : cases) {
    const Error error = fault_of(body);
    EXPECT_EQ(http_status(error), 400) << body.substr(0, 60);
    EXPECT_LT(error.message().size(), 400U);
  }
}

TEST(HostileCall, SixtyFourLevelsAreTheBound) {
  const auto nested = [](std::size_t levels) {  // inside the body's own
    return "{\"no_such\":" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
  };
  const std::string read = fault_of(nested(64)).message();  // then refused for its name
  EXPECT_THAT(read, Not(HasSubstr("nested too deeply")));
  EXPECT_THAT(fault_of(nested(65)).message(), HasSubstr("nested too deeply"));
}

// Each value takes memory while the body is read, so a body of 2 MB could take a hundred.
TEST(HostileCall, AMillionValuesAreTheBound) {
  const auto with_values = [](std::size_t n) {
    std::string body = "{" + kMessages + R"(,"stop_token_ids":[0)";
    for (std::size_t i = 1; i < n; ++i) body += ",0";
    return body + "]}";
  };
  EXPECT_THAT(fault_of(with_values(1'000'000)).message(), Not(HasSubstr("too many values")));  // for its ids
  const Error error = fault_of(with_values(1'100'000));
  EXPECT_EQ(http_status(error), 400);
  EXPECT_THAT(error.message(), HasSubstr("too many values"));
}

}  // namespace
}  // namespace slip
