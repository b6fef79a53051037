// SPDX-License-Identifier: Apache-2.0
#include "server/http/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "common/error.h"

namespace slip {
namespace {

using Json = nlohmann::ordered_json;

std::string by_nlohmann(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class Value>
std::string text_of(const Value& value) {
  JsonText json;
  json.value(value);
  return std::move(json).take();
}

TEST(JsonText, WritesWhatTheTreeWouldSay) {
  JsonText json;
  json.begin_object();
  json.member("a", 1);
  json.key("b");
  json.begin_array();
  json.value(true);
  json.value(nullptr);
  json.begin_array();
  json.end_array();
  json.begin_object();
  json.end_object();
  json.value("x");
  json.end_array();
  json.member("c", std::optional<double>());
  json.member("d", std::optional<double>(0.25));
  json.key("e");
  json.json("[1,2]");
  json.member("a \"quoted\" name", std::string("y"));
  json.end_object();
  EXPECT_EQ(std::move(json).take(),
            R"({"a":1,"b":[true,null,[],{},"x"],"c":null,"d":0.25,"e":[1,2],"a \"quoted\" name":"y"})");
}

TEST(JsonText, NumbersAreWrittenShort) {
  EXPECT_EQ(text_of(std::uint64_t{18446744073709551615U}), "18446744073709551615");
  EXPECT_EQ(text_of(std::int64_t{-5}), "-5");
  for (const double number : {0.0, -1.0, 0.1, -9999.0, 1e-7, 1.0 / 3, 1e300}) {
    EXPECT_EQ(text_of(number), by_nlohmann(number));
  }
  EXPECT_EQ(text_of(std::numeric_limits<double>::quiet_NaN()), "null");
}

// Any bytes come out as nlohmann has them, which other parsers agree with: broken UTF-8 replaced, controls escaped.
TEST(JsonText, StringsAreNlohmanns) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 12, '\0');
    for (char& c : text) c = static_cast<char>(random() % 3 == 0 ? random() % 128 : random() % 256);
    EXPECT_EQ(text_of(text), by_nlohmann(text)) << i;
  }
  for (int c = 0; c < 256; ++c) {
    const std::string text(1, static_cast<char>(c));
    EXPECT_EQ(text_of(text), by_nlohmann(text)) << c;
  }
  EXPECT_EQ(text_of("é€😀"), "\"é€😀\"");
}

TEST(JsonText, EndsAtItsBound) {
  JsonText fits(5, "a.limit");
  fits.value("abc");
  EXPECT_EQ(std::move(fits).take(), "\"abc\"");
  JsonText json(5, "a.limit");
  try {
    json.value("abcd");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(error.message().find("5 bytes, a.limit"), std::string::npos);
  }
}

}  // namespace
}  // namespace slip
