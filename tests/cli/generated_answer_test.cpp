// SPDX-License-Identifier: Apache-2.0
#include "cli/generated_answer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace slip::cli {
namespace {

RequestSummary summary_of(std::int32_t n_tokens) {
  RequestSummary summary;
  summary.reason = StopReason::kEndToken;
  summary.figures.output_tokens = n_tokens;
  summary.figures.steps = 2;
  summary.figures.proposed = 6;
  summary.figures.accepted = 3;
  summary.figures.first_rejections = 1;
  summary.figures.by_proposer = {
      {{.proposed = 4, .accepted = 1, .first_rejections = 1}, {.proposed = 2, .accepted = 2}}};
  summary.figures.finished_us = 1'000'000;
  summary.figures.checksum = 0xab;
  return summary;
}

std::vector<nlohmann::json> lines_of(const std::string& output) {
  std::vector<nlohmann::json> lines;
  for (std::size_t at = 0; at < output.size(); at = output.find('\n', at) + 1) {
    lines.push_back(nlohmann::json::parse(output.substr(at, output.find('\n', at) - at)));
  }
  return lines;
}

TEST(GeneratedAnswer, IsOneJsonObjectAPromptInInputOrder) {
  ::testing::internal::CaptureStdout();
  AnswerPrinter printer(/*json=*/true, /*show_progress=*/false, 2);
  GeneratedAnswer first({.id = "a", .prompt_ids = {1, 2}, .with_logprobs = true, .with_checksum = true}, printer, 0);
  GeneratedAnswer second({.id = 2}, printer, 1);
  second.on_tokens({{5}, "later", {}});
  second.on_finished(summary_of(1));
  first.on_tokens({{3, 4}, "x\xff", {{3, -1.5F, {{3, -1.5F}}}, {4, 0, {{4, -INFINITY}}}}});
  first.on_finished(summary_of(5));
  const auto lines = lines_of(::testing::internal::GetCapturedStdout());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["id"], "a");
  EXPECT_EQ(lines[0]["text"], "x\xEF\xBF\xBD");
  EXPECT_EQ(lines[0]["token_ids"], (std::vector<int>{3, 4}));
  EXPECT_EQ(lines[0]["stop_reason"], "stop_token");
  EXPECT_EQ(lines[0]["by_proposer"].dump(),
            R"({"draft":{"accepted":1,"proposed":4},"prompt_lookup":{"accepted":2,"proposed":2}})");
  EXPECT_DOUBLE_EQ(lines[0]["acceptance_rate"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(lines[0]["accepted_length"].get<double>(), 2.5);
  EXPECT_DOUBLE_EQ(lines[0]["tokens_per_second"].get<double>(), 4);
  EXPECT_EQ(lines[0]["checksum"], "00000000000000ab");
  EXPECT_EQ(lines[0]["top_logprobs"].dump(), "[[[3,-1.5]],[[4,-9999.0]]]");
  EXPECT_EQ(lines[1]["id"], 2);
  EXPECT_FALSE(lines[1].contains("checksum"));
  EXPECT_FALSE(lines[1].contains("top_logprobs"));
  EXPECT_EQ(printer.n_failed(), 0U);
}

TEST(GeneratedAnswer, TextStreamsInTurn) {
  ::testing::internal::CaptureStdout();
  AnswerPrinter printer(/*json=*/false, /*show_progress=*/false, 2);
  GeneratedAnswer first({}, printer, 0), second({}, printer, 1);
  first.on_tokens({{1}, "one ", {}});
  second.on_tokens({{1}, "two", {}});
  first.on_tokens({{1}, "more", {}});
  second.on_finished(summary_of(1));
  first.on_finished(summary_of(2));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "one more\ntwo\n");
}

TEST(GeneratedAnswer, ARowThatWasNotAnsweredIsAnErrorInItsPlace) {
  ::testing::internal::CaptureStdout();
  AnswerPrinter printer(/*json=*/true, /*show_progress=*/false, 1);
  GeneratedAnswer answer({.id = 9}, printer, 0);
  RequestSummary summary = summary_of(0);
  summary.reason = StopReason::kFailed;
  summary.error = Error(ErrorCode::kDataLoss, "broken weights");
  answer.on_finished(summary);
  EXPECT_EQ(lines_of(::testing::internal::GetCapturedStdout())[0].dump(), R"({"error":"broken weights","id":9})");
  EXPECT_EQ(printer.n_failed(), 1U);
  EXPECT_EQ(printer.first_failure()->code(), ErrorCode::kDataLoss);
  EXPECT_EQ(printer.first_failed(), 0U);
}

}  // namespace
}  // namespace slip::cli
