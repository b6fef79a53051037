// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "common/error.h"

namespace slip {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string refusal(const std::string& text, JsonBounds bounds = {}) {
  try {
    parse_strict_json(text, "file.json", bounds);
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
}

std::string repeated(const std::string& text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

TEST(StrictJson, TakesWhatIsSound) {
  const auto value = parse_strict_json(R"({"a": [1, {"b": "x"}], "b": {"a": null}})", "file.json");
  EXPECT_EQ(value["a"][1]["b"], "x");
}

TEST(StrictJson, RefusesAKeyTwiceInOneObjectOnly) {
  EXPECT_THAT(refusal(R"({"a": 1, "a": 2})"), HasSubstr("key twice"));
  EXPECT_THAT(refusal(R"([{"x": {"a": 1, "b": 2, "a": 1}}])"), HasSubstr("key twice"));
  EXPECT_THAT(refusal("{\"a\": 1, \"\\u0061\": 2}"), HasSubstr("key twice"));
  EXPECT_EQ(refusal(R"([{"a": 1}, {"a": 2}, {"b": {"a": 1}, "a": 3}])"), "accepted");
}

TEST(StrictJson, BoundsDepthAndSizeBeforeBuilding) {
  EXPECT_EQ(refusal(repeated("[", 64) + repeated("]", 64)), "accepted");
  EXPECT_THAT(refusal(repeated("[", 65) + repeated("]", 65)), HasSubstr("nested too deeply"));
  EXPECT_THAT(refusal(repeated("{\"a\":", 100000)), HasSubstr("nested too deeply"));
  EXPECT_THAT(refusal(repeated("[", 1000000)), HasSubstr("nested too deeply"));
  EXPECT_EQ(refusal("[1,2,3]", {.max_depth = 4, .max_values = 4}), "accepted");
  EXPECT_THAT(refusal("[1,2,3,4]", {.max_depth = 4, .max_values = 4}), HasSubstr("too many values"));
}

// A body may have a megabyte: a fault says where it is.
TEST(StrictJson, EveryFaultNamesItsByte) {
  EXPECT_THAT(refusal("[1e400]"), HasSubstr("a number is out of range at byte 6 of 7"));
  EXPECT_THAT(refusal("[1,2,3,4]", {.max_depth = 4, .max_values = 4}), HasSubstr("too many values at byte 9 of 9"));
  EXPECT_THAT(refusal("[[[]]]", {.max_depth = 2}), HasSubstr("nested too deeply at byte 3 of 6"));
  EXPECT_THAT(refusal(R"({"a":1,"a":2})"), HasSubstr("key twice in one object at byte 10 of 13"));
  EXPECT_THAT(refusal("[1,]"), HasSubstr("not valid JSON at byte 4 of 4"));
  for (const char* half : {"{", "[1,", R"({"a":)", R"(["a)", "tru", ""}) {
    const std::string end = std::to_string(std::strlen(half));
    EXPECT_THAT(refusal(half), HasSubstr("the text ends too early at byte " + end + " of " + end)) << half;
  }
}

std::string param_of_refusal(const std::string& text) {
  try {
    parse_strict_json(text, "file.json");
    return "accepted";
  } catch (const Error& error) {
    return error.param();
  }
}

TEST(StrictJson, AFaultInsideAMemberNamesTheOutermostKey) {
  EXPECT_EQ(param_of_refusal(R"({"n": 1, "temperature": 1e400})"), "temperature");
  EXPECT_EQ(param_of_refusal(R"({"logit_bias": {"5": [1e400]}})"), "logit_bias");
  EXPECT_EQ(param_of_refusal(R"({"seed": 1, "seed": 2})"), "seed");
  EXPECT_EQ(param_of_refusal("[1e400]"), "");
  EXPECT_EQ(param_of_refusal("{\"" + std::string(65, 'k') + "\": 1e400}"), "") << "a key may be of any length";
}

TEST(StrictJson, RefusesWhatIsNotJsonWithoutRepeatingIt) {
  for (const char* text : {"", " ", "{", "{\"a\": secret}", "[1,]", "{\"a\" 1}", "nul", "1 2", "\"\xff\"", "[1e999]"}) {
    EXPECT_THAT(refusal(text), HasSubstr("file.json: not valid JSON")) << text;
    EXPECT_THAT(refusal(text), Not(HasSubstr("secret")));
  }
}

// nlohmann's lexer takes a NUL for the end of the text: whatever came after it was accepted unseen.
TEST(StrictJson, NothingHidesBehindANul) {
  EXPECT_THAT(refusal(std::string("{}\0{\"a\":1,\"a\":2}", 16)), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(std::string("{}\0", 3)), HasSubstr("not valid JSON"));
  EXPECT_EQ(refusal("\"\\u0000\""), "accepted");
}

class Fields : public ::testing::Test {
 protected:
  const nlohmann::json document_ = nlohmann::json::parse(
      R"({"yes": true, "five": 5, "minus": -5, "half": 0.5, "whole": 5.0, "wide": 4294967297, "huge": 18446744073709551615,
          "beyond": 18446744073709551616, "text": "5", "none": null})");
  const JsonFields fields_{document_, "file.json"};

  std::string integer_refusal(const char* key) const {
    try {
      fields_.integer(key, {0, 1 << 30});
      return "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.param(), key);
      return error.what();
    }
  }
};

// nlohmann's get<int>() makes 1 of true and of 2^32 + 1, 0 of 0.5 and −1 of 2^64 − 1.
TEST_F(Fields, IntegersAreOfExactTypeAndRange) {
  EXPECT_EQ(fields_.integer("five", {0, 5}), 5);
  EXPECT_EQ(fields_.integer("minus", {-5, 0}), -5);
  for (const char* key : {"yes", "minus", "half", "whole", "wide", "huge", "beyond", "text"}) {
    EXPECT_THAT(integer_refusal(key), HasSubstr("must be an integer from 0 to 1073741824")) << key;
  }
  EXPECT_THAT(integer_refusal("none"), HasSubstr("\"none\" is missing"));
  EXPECT_THAT(integer_refusal("absent"), HasSubstr("\"absent\" is missing"));
  EXPECT_EQ(fields_.optional_integer("none", {0, 1}), std::nullopt);
}

TEST_F(Fields, OtherTypesAreExactToo) {
  EXPECT_EQ(fields_.optional_number("half", {0, 1}), 0.5);
  EXPECT_EQ(fields_.optional_number("five", {0, 9}), 5.0);
  EXPECT_THROW(fields_.optional_number("five", {0, 4}), Error);
  EXPECT_THROW(fields_.optional_number("yes", {0, 4}), Error);
  EXPECT_THROW(fields_.optional_number("text", {0, 9}), Error);
  EXPECT_EQ(fields_.optional_boolean("yes"), true);
  EXPECT_THROW(fields_.optional_boolean("five"), Error);
  EXPECT_EQ(fields_.optional_string("text"), "5");
  EXPECT_THROW(fields_.optional_string("five"), Error);
  EXPECT_EQ(fields_.optional_string("absent"), std::nullopt);
}

TEST_F(Fields, OnlyObjectsHaveFields) {
  const auto list = nlohmann::json::array();
  EXPECT_THROW(JsonFields(list, "file.json"), Error);
}

}  // namespace
}  // namespace slip
