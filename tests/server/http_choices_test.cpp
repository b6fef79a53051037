// SPDX-License-Identifier: Apache-2.0
// Calls that ask for several choices: all are made or none, and they end together.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/error.h"
#include "tests/server/http_fixture.h"

namespace slip {
namespace {

// Bug: it was a 429, and what it said about waiting requests was not so.
TEST_F(HttpServerTest, MoreChoicesThanMayWaitAreRefusedByName) {
  max_waiting_ = 8;
  start();
  EXPECT_EQ(ask(post(R"({"prompt":[[5],[6]],"n":4})", "/v1/completions")).status, 200);
  const auto refused = ask(post(R"({"prompt":[[5],[6],[7]],"n":3})", "/v1/completions"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(error_of(refused)["param"], "n");
  EXPECT_EQ(error_of(refused)["message"],
            "the call asks for 9 choices, more than may wait here (8); ask for fewer, in several calls");
}

TEST_F(HttpServerTest, ChoicesDifferByTheirAddressAlone) {
  start();
  const auto reply = ask(post(R"({"messages":[{"role":"user","content":"hi"}],"n":3,"seed":3})"));
  EXPECT_EQ(reply.status, 200);
  const auto body = json::parse(reply.body);
  ASSERT_EQ(body["choices"].size(), 3U);
  EXPECT_EQ(body["choices"][2]["index"], 2);
  EXPECT_EQ(body["choices"][2]["message"]["content"], "Hello");
  const Request first = engine_.request(0);
  EXPECT_EQ(body["usage"]["prompt_tokens"], first.prompt.size());
  EXPECT_EQ(body["usage"]["completion_tokens"], 6);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const Request request = engine_.request(i);
    EXPECT_EQ(request.choice, i);
    EXPECT_EQ(request.learn, i == 0) << "one lesson a prompt";
    EXPECT_EQ(request.sampling.seed, 3U);
    EXPECT_EQ(request.prompt, first.prompt);
    EXPECT_EQ(request.id == first.id, i == 0);
    EXPECT_EQ(request.call, first.id);
  }
}

TEST_F(HttpServerTest, StreamsOfSeveralChoicesEndTogether) {
  start();
  const auto reply = ask(post(R"({"messages":[{"role":"user","content":"hi"}],"n":3,"stream":true})"));
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
  std::vector<std::string> texts(3);
  int n_reasons = 0;
  for (std::size_t at = 0; (at = reply.body.find("data: {", at)) != std::string::npos; ++at) {
    const auto event = json::parse(reply.body.substr(at + 6, reply.body.find('\n', at) - at - 6));
    const auto& choice = event["choices"][0];
    if (choice["delta"].contains("content")) texts.at(choice["index"]) += choice["delta"]["content"];
    if (choice["finish_reason"].is_string()) ++n_reasons;
  }
  EXPECT_EQ(texts, std::vector<std::string>(3, "Hello"));
  EXPECT_EQ(n_reasons, 3);
}

TEST_F(HttpServerTest, WithoutRoomForAllChoicesNoneIsMade) {
  engine_.hold = true;
  engine_.room = 2;
  start();
  const auto reply = ask(post(R"({"messages":[{"role":"user","content":"hi"}],"n":3})"));
  EXPECT_EQ(reply.status, 429);
  EXPECT_TRUE(engine_.wait_for([](const FakeEngine& engine) { return engine.cancelled().size() == 2; }));
}

class RefusedSpeedTest : public HttpServerTest {
 protected:
  EngineCalls calls() override {
    auto calls = engine_.calls();
    calls.check_speed = [](const Request&, std::int32_t n_before) {
      if (n_before >= 2) throw Error(ErrorCode::kUnattainable, "too slow after so many");
    };
    return calls;
  }
};

// Bug: a choice was checked when those before it were submitted, so the engine began a call that was then refused.
TEST_F(RefusedSpeedTest, NoChoiceIsSubmittedIfALaterOneIsRefused) {
  start();
  const auto reply = ask(post(R"({"messages":[{"role":"user","content":"hi"}],"n":3})"));
  EXPECT_EQ(reply.status, 503);
  EXPECT_TRUE(engine_.requests().empty());
  EXPECT_EQ(ask(post(R"({"prompt":["a","b"],"n":2})", "/v1/completions")).status, 503);
  EXPECT_TRUE(engine_.requests().empty());
  EXPECT_EQ(ask(post(R"({"messages":[{"role":"user","content":"hi"}],"n":2})")).status, 200);
}

TEST_F(HttpServerTest, AHundredAndTwentyEightChoicesAreOneAnswer) {
  start();
  const auto body = json::parse(ask(post(R"({"prompt":[5,6,7],"max_tokens":2,"n":128})", "/v1/completions")).body);
  ASSERT_EQ(body["choices"].size(), 128U);
  EXPECT_EQ(body["choices"][127]["text"], "Hello");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 3);
}

}  // namespace
}  // namespace slip
