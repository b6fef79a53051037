// SPDX-License-Identifier: Apache-2.0
// The speeds that a call asks for: its own, those of its header, and named ones.
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "server/openai/call.h"

namespace slip {
namespace {

CompletionCall chat(const std::string& fields, const CallHeaders& headers = {}, std::span<const SloTier> tiers = {}) {
  const std::string messages = R"("messages":[{"role":"user","content":"hi"}])";
  return parse_request(Endpoint::kChat, "{" + messages + (fields.empty() ? "" : "," + fields) + "}", headers, tiers);
}

TEST(Call, SloIsTheSpeedAskedFor) {
  EXPECT_FALSE(chat("").slo.any());
  EXPECT_FALSE(chat(R"("slo":{"tpot_ms":null})").slo.any());
  EXPECT_EQ(chat(R"("slo":{"tpot_ms":40.5,"ttft_ms":500})").slo.tpot_us, 40'500);
  EXPECT_EQ(chat(R"("slo":{"tpot_ms":40.5,"ttft_ms":500})").slo.ttft_us, 500'000);
  const auto with_header = [](const std::string& header, const std::string& body = R"("n":1)") {
    CallHeaders headers;
    headers.slo = header;
    return parse_request(Endpoint::kChat, R"({"messages":[{"role":"user","content":"x"}],)" + body + "}", headers).slo;
  };
  EXPECT_EQ(with_header(" ttft=500 , tpot = 40").tpot_us, 40'000);
  EXPECT_EQ(with_header("tpot=40", R"("slo":{"tpot_ms":40,"ttft_ms":7})").ttft_us, 7'000);
  EXPECT_EQ(with_header("ttft=0.25").ttft_us, 250);
  EXPECT_EQ(with_header("e2e=4000").e2e_us, 4'000'000);
  EXPECT_EQ(chat(R"("slo":{"e2e_ms":4000})").slo.e2e_us, 4'000'000);
  const auto fault = [&](const std::string& header, const std::string& body = R"("n":1)") -> std::string {
    try {
      with_header(header, body);
    } catch (const Error& error) {
      return error.param();
    }
    return "";
  };
  for (const char* header : {"", "tpot", "tpot=", "tpot=x", "tpot=\"4\"", "tpot=0", "tpot=-1", "tpot=3600001",
                             "tpot=1e999", "e2e=0", "eee=5", "tpot=4,tpot=4", "tpot=4,,ttft=5", "=5", "tpot=[4]"}) {
    EXPECT_EQ(fault(header), "X-Slipstream-SLO") << header;
  }
  EXPECT_EQ(fault("tpot=41", R"("slo":{"tpot_ms":40})"), "slo.tpot_ms");
  CallHeaders unprivileged;
  unprivileged.slo = "tpot=41";
  unprivileged.may_ask_slo = false;
  try {
    parse_request(Endpoint::kChat, R"({"messages":[{"role":"user","content":"x"}]})", unprivileged);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.param(), "X-Slipstream-SLO") << "the body has no slo";
  }
}

// A speed is asked for at the cost of others.
TEST(Call, AKeyThatMayNotAskForASpeedIsToldSo) {
  CallHeaders headers;
  headers.may_ask_slo = false;
  const std::string messages = R"("messages":[{"role":"user","content":"x"}])";
  EXPECT_NO_THROW(parse_request(Endpoint::kChat, "{" + messages + "}", headers));
  try {
    parse_request(Endpoint::kChat, "{" + messages + R"(,"slo":{"ttft_ms":9}})", headers);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kPermission);
    EXPECT_EQ(error.param(), "slo");
  }
}

class CallTier : public ::testing::Test {
 protected:
  CompletionCall ask(const std::string& fields) const { return chat(fields, headers_, tiers_); }
  // The field that the error names, with its code.
  std::pair<ErrorCode, std::string> fault(const std::string& fields) const {
    try {
      ask(fields);
    } catch (const Error& error) {
      return {error.code(), error.param()};
    }
    return {ErrorCode::kInternal, "taken"};
  }
  CallHeaders headers_;
  std::vector<SloTier> tiers_ = {{"fast", {.tpot_us = 40'000, .ttft_us = 500'000}}, {"flex", {.e2e_us = 9'000'000}}};
};

TEST_F(CallTier, ATierIsASpeedByItsName) {
  const auto fast = ask(R"("service_tier":"fast")");
  EXPECT_EQ(fast.slo_tier, "fast");
  EXPECT_EQ(fast.slo.tpot_us, 40'000);
  EXPECT_EQ(fast.slo.ttft_us, 500'000);
  EXPECT_EQ(fast.slo.e2e_us, 0);
  EXPECT_EQ(ask(R"("service_tier":"flex")").slo.e2e_us, 9'000'000) << "the operator's own comes before OpenAI's";
  for (const char* hint : {"auto", "default", "priority", "scale"}) {
    const auto call = ask(R"("service_tier":")" + std::string(hint) + R"(")");
    EXPECT_FALSE(call.slo.any()) << hint;
    EXPECT_EQ(call.slo_tier, "") << hint;
    EXPECT_EQ(call.service_tier, "default") << hint;
  }
  EXPECT_FALSE(ask(R"("service_tier":null)").slo.any());
  EXPECT_EQ(fast.service_tier, "fast");
  EXPECT_EQ(ask(R"("service_tier":null)").service_tier, "");
  EXPECT_EQ(fault(R"("service_tier":"Fast")"), std::pair(ErrorCode::kInvalidArgument, std::string("service_tier")));
}

TEST_F(CallTier, ATargetMayBeAddedButNotChanged) {
  EXPECT_EQ(ask(R"("service_tier":"fast","slo":{"tpot_ms":40,"e2e_ms":7})").slo.e2e_us, 7'000);
  EXPECT_EQ(fault(R"("service_tier":"fast","slo":{"ttft_ms":400})"),
            std::pair(ErrorCode::kInvalidArgument, std::string("slo.ttft_ms")));
}

TEST_F(CallTier, AKeyAsksForTheTiersThatItHas) {
  headers_.may_ask_slo = false;
  headers_.slo_tiers = {"fast"};
  EXPECT_EQ(ask(R"("service_tier":"fast")").slo_tier, "fast");
  EXPECT_EQ(ask(R"("service_tier":"auto")").slo_tier, "");
  EXPECT_EQ(fault(R"("service_tier":"flex")"), std::pair(ErrorCode::kPermission, std::string("service_tier")));
  EXPECT_EQ(fault(R"("service_tier":"fast","slo":{"e2e_ms":7})"),
            std::pair(ErrorCode::kPermission, std::string("slo")));
}

}  // namespace
}  // namespace slip
