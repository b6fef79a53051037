// SPDX-License-Identifier: Apache-2.0
// The document must say what the code does: its routes, its fields, and the shape of its answers.
#include "server/openai/openapi.h"

#include <algorithm>
#include <regex>
#include <set>

#include "checkpoints/strict_json.h"
#include "server/openai/routes.h"
#include "server/openai/slo_tier.h"
#include "tests/server/http_fixture.h"

namespace slip {
namespace {

const json& document() {
  static const json parsed = parse_strict_json(openapi_document(), "openapi.json");
  return parsed;
}

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

const json& schema(const std::string& name) {
  return document().at("components").at("schemas").at(name);
}

template <class Names>
std::set<std::string> set_of(const Names& names) {
  return {names.begin(), names.end()};
}

TEST(OpenApi, DescribesEveryRouteAndNoOther) {
  std::set<std::string> described, served;
  for (const auto& [path, operations] : document().at("paths").items()) {
    for (std::string method : keys_of(operations)) {
      std::transform(method.begin(), method.end(), method.begin(), [](unsigned char c) { return std::toupper(c); });
      described.insert(method + " " + path);
    }
  }
  for (const RouteEntry& route : routes()) served.insert(std::string(route.method) + " " + std::string(route.path));
  EXPECT_EQ(described, served);
}

TEST(OpenApi, DescribesEveryFieldAndNoOther) {
  EXPECT_EQ(keys_of(schema("ChatRequest").at("properties")), set_of(request_fields(Endpoint::kChat)));
  EXPECT_EQ(keys_of(schema("CompletionRequest").at("properties")), set_of(request_fields(Endpoint::kCompletion)));
  for (const json& form : schema("TokenizeRequest").at("anyOf")) {
    EXPECT_EQ(keys_of(form.at("properties")), set_of(kTokenizeFields));
  }
  EXPECT_EQ(keys_of(schema("DetokenizeRequest").at("properties")), set_of(kDetokenizeFields));
}

// A value just outside a documented range is refused, one at its ends is taken.
TEST(OpenApi, RangesAreTheCodes) {
  for (const auto& [name, field] : schema("ChatRequest").at("properties").items()) {
    if (!field.contains("maximum") || !field.contains("minimum") || name == "top_logprobs" || name == "seed") continue;
    const auto taken = [&, named = name](const json& value) {
      json body = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
      body[named] = value;
      try {
        parse_request(Endpoint::kChat, body.dump(), {});
      } catch (const Error&) {
        return false;
      }
      return true;
    };
    EXPECT_TRUE(taken(field["minimum"])) << name;
    EXPECT_TRUE(taken(field["maximum"])) << name;
    EXPECT_FALSE(taken(field["minimum"].get<double>() - 1)) << name;
    const json above = field["maximum"].is_number_integer() ? json(field["maximum"].get<std::int64_t>() + 1)
                                                            : json(field["maximum"].get<double>() + 0.001);
    EXPECT_FALSE(taken(above)) << name;
    EXPECT_TRUE(taken(nullptr)) << name;
  }
}

TEST(OpenApi, ThePatternOfTheSloHeaderIsTheCodes) {
  const json& header = document().at("components").at("parameters").at("Slo").at("schema");
  const std::regex pattern(header.at("pattern").get<std::string>(), std::regex::ECMAScript);
  for (const char* taken : {"tpot=40", "tpot=40, ttft=500", "e2e=0.001,tpot=3600000", " ttft = 7.5 "}) {
    EXPECT_TRUE(parse_slo(taken)) << taken;
    EXPECT_TRUE(std::regex_match(taken, pattern)) << taken;
  }
  for (const char* refused :
       {"", "tpot", "tpot=", "40", "tpot=-1", "tpot=1;ttft=2", "tpot=nan", "tpot=1,", "speed=4"}) {
    EXPECT_FALSE(parse_slo(refused)) << refused;
    EXPECT_FALSE(std::regex_match(refused, pattern)) << refused;
  }
}

TEST(OpenApi, EveryReferenceLeadsSomewhere) {
  const std::function<void(const json&)> follow = [&](const json& node) {
    for (const auto& [key, value] : node.items()) {
      if (key == "$ref") {
        EXPECT_TRUE(document().contains(json::json_pointer(value.get<std::string>().substr(1)))) << value;
      } else if (value.is_structured()) {
        follow(value);
      }
    }
  };
  follow(document());
}

using OpenApiServer = HttpServerTest;

TEST_F(OpenApiServer, IsServedAsItIs) {
  start(/*ready=*/false);
  const auto reply = ask(get("/openapi.json"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(json::parse(reply.body), document());
  EXPECT_EQ(document()["info"]["version"], json::parse(ask(get("/version")).body)["version"]);
}

}  // namespace
}  // namespace slip
