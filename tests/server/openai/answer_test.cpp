// SPDX-License-Identifier: Apache-2.0
#include "server/openai/answer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/server/openai/answer_samples.h"

namespace slip {
namespace {

using nlohmann::json;
using testing::closing;
using testing::events;
using testing::identity;
using testing::streamed;
using testing::summary;
using testing::whole;

TEST(Answer, WholeChatAnswerHasOpenAisShape) {
  const auto answer = json::parse(whole(identity(), {"hi", {}}, summary(StopReason::kEndToken)));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["id"], "chatcmpl-1");
  EXPECT_EQ(answer["created"], 5);
  EXPECT_EQ(answer["choices"].size(), 1U);
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "hi");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 6);
  EXPECT_EQ(answer["usage"]["total_tokens"], 10);
  EXPECT_EQ(answer["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 3);
  EXPECT_EQ(answer["usage"]["completion_tokens_details"]["rejected_prediction_tokens"], 6);
  const auto& figures = answer["metrics"]["speculative_decoding"];
  EXPECT_EQ(figures["num_spec_steps"], 3);
  EXPECT_EQ(figures["num_draft_tokens"], 9);
  EXPECT_EQ(figures["num_accepted_draft_tokens"], 3);
  EXPECT_EQ(figures["num_first_rejections"], 2);
  EXPECT_EQ(figures["by_proposer"], json::parse(R"({"draft":{"proposed":6,"accepted":1},)"
                                                R"("prompt_lookup":{"proposed":3,"accepted":2}})"));
  EXPECT_EQ(figures["draft"], "sql");
  EXPECT_EQ(figures["draft_version"], 7);
  EXPECT_EQ(figures["topic"], "sql");
  EXPECT_EQ(figures["topic_source"], "label");
}

TEST(Answer, SaysWhetherItCameAsFastAsAskedFor) {
  RequestSummary slow = summary(StopReason::kEndToken);
  EXPECT_FALSE(json::parse(whole(identity(), {"hi", {}}, slow))["metrics"].contains("slo"));
  slow.slo.tpot_us = 10'000;
  slow.figures.output_tokens = 6;
  slow.figures.submitted_us = 1'000;
  slow.figures.first_token_us = 51'000;
  slow.figures.finished_us = 111'000;  // five tokens later
  auto who = identity();
  who.expose_acceptance = false;
  const auto slo = [&] { return json::parse(whole(who, {"hi", {}}, slow))["metrics"]["slo"]; };
  EXPECT_EQ(slo(),
            json::parse(R"({"tpot_ms":10,"ttft_ms":null,"e2e_ms":null,"measured_tpot_ms":12,"measured_ttft_ms":50,)"
                        R"("measured_e2e_ms":110,"met":false})"));
  slow.slo.tpot_us = 12'000;
  EXPECT_EQ(slo()["met"], true);
  slow.slo.e2e_us = 110'000;
  slow.slo_tier = "soon";
  EXPECT_EQ(slo()["met"], true);
  EXPECT_EQ(slo()["tier"], "soon");
  EXPECT_EQ(slo()["e2e_ms"], 110);
  slow.slo.e2e_us = 109'999;
  EXPECT_EQ(slo()["met"], false);
  slow.slo.e2e_us = 0;
  slow.slo.ttft_us = 49'999;
  EXPECT_EQ(slo()["met"], false);
}

TEST(Answer, WholeCompletionHasText) {
  const auto answer = json::parse(whole(identity(Endpoint::kCompletion), {"hi", {}}, summary(StopReason::kLength)));
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["choices"][0]["text"], "hi");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
}

TEST(Answer, HiddenAcceptanceIsNowhere) {
  auto who = identity();
  who.expose_acceptance = false;
  const auto text =
      whole(who, {"hi", {}}, summary(StopReason::kEndToken)) + closing(who, summary(StopReason::kEndToken));
  EXPECT_EQ(text.find("accepted"), std::string::npos);
  EXPECT_EQ(text.find("speculative"), std::string::npos);
  EXPECT_EQ(text.find("proposer"), std::string::npos);
}

TEST(Answer, PlainDecodingNamesNoDraft) {
  auto who = identity();
  who.draft.clear();
  const auto answer = json::parse(whole(who, {"hi", {}}, summary(StopReason::kStopString)));
  EXPECT_TRUE(answer["metrics"]["speculative_decoding"]["draft"].is_null());
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
}

TEST(Answer, StreamBeginsWithTheRoleAndEndsOnce) {
  const auto who = identity();
  AnswerChannel::Taken taken;
  taken.part.text = "a\nb";
  taken.finished = summary(StopReason::kEndToken);
  const std::string text = opening_events(who) + streamed(who, taken);
  EXPECT_TRUE(text.ends_with("data: [DONE]\n\n"));
  const auto all = events(text);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(all[1]["choices"][0]["delta"]["content"], "a\nb");
  int reasons = 0;
  for (const auto& event : all) {
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    EXPECT_FALSE(event.contains("usage"));
    if (event["choices"][0]["finish_reason"].is_string()) ++reasons;
  }
  EXPECT_EQ(reasons, 1);
  EXPECT_EQ(all[2]["metrics"]["speculative_decoding"]["num_spec_steps"], 3);
}

TEST(Answer, UsageComesInALastChunkWithoutChoices) {
  auto who = identity();
  who.include_usage = true;
  const auto all = events(opening_events(who) + closing(who, summary(StopReason::kLength)));
  ASSERT_EQ(all.size(), 3U);
  EXPECT_TRUE(all[0]["usage"].is_null());
  EXPECT_TRUE(all[1]["usage"].is_null());
  EXPECT_EQ(all[1]["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(all[2]["choices"].empty());
  EXPECT_EQ(all[2]["usage"]["completion_tokens"], 6);
  EXPECT_TRUE(all[2].contains("metrics"));
  EXPECT_FALSE(all[1].contains("metrics"));
}

TEST(Answer, AnErrorEndsTheStreamWithoutDone) {
  AnswerChannel::Taken taken;
  taken.finished = summary(StopReason::kFailed);
  taken.finished->error = Error(ErrorCode::kInternal, "secret detail");
  const std::string text = streamed(identity(), taken);
  const auto all = events(text);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0]["error"]["type"], "server_error");
  EXPECT_EQ(text.find("[DONE]"), std::string::npos);
  EXPECT_EQ(text.find("secret"), std::string::npos);
}

// A client tells by it whether a seed still means the same answer: drafts, which change with traffic, have no part in
// it.
TEST(Answer, EveryObjectNamesBuildAndTarget) {
  auto who = identity();
  who.include_usage = true;
  AnswerChannel::Taken taken;
  taken.part.text = "x";
  taken.finished = summary(StopReason::kEndToken);
  for (const auto endpoint : {Endpoint::kChat, Endpoint::kCompletion}) {
    who.endpoint = endpoint;
    who.echoes = {"y"};
    EXPECT_EQ(json::parse(whole(who, {"hi", {}}, summary(StopReason::kLength)))["system_fingerprint"], "fp_0123");
    const auto all = events(opening_events(who) + streamed(who, taken));
    EXPECT_EQ(all.size(), 4U);
    for (const auto& event : all) EXPECT_EQ(event["system_fingerprint"], "fp_0123") << event;
  }
}

// Bug: service_tier was accepted, and the answer did not say which tier served it.
TEST(Answer, TheTierThatServesComesBack) {
  auto who = identity();
  EXPECT_FALSE(json::parse(whole(who, {"hi", {}}, summary(StopReason::kLength))).contains("service_tier"));
  who.service_tier = "fast";
  EXPECT_EQ(json::parse(whole(who, {"hi", {}}, summary(StopReason::kLength)))["service_tier"], "fast");
  for (const auto& event : events(opening_events(who) + closing(who, summary(StopReason::kLength)))) {
    EXPECT_EQ(event["service_tier"], "fast") << event;
  }
}

TEST(Answer, AGivenSeedComesBackAlsoWhereAcceptanceIsHidden) {
  auto who = identity();
  const auto metrics_of = [&] {
    return json::parse(whole(who, {"hi", {}}, summary(StopReason::kLength))).value("metrics", json::object());
  };
  EXPECT_FALSE(metrics_of().contains("seed"));
  who.seed = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(metrics_of()["seed"], std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(metrics_of().contains("speculative_decoding"));
  who.expose_acceptance = false;
  EXPECT_EQ(metrics_of().size(), 1U);
  const auto all = events(closing(who, summary(StopReason::kLength)));
  EXPECT_EQ(all.back()["metrics"]["seed"], *who.seed);
}

TEST(Answer, BrokenUtf8IsReplaced) {
  const auto answer = json::parse(whole(identity(), {"a\xff\xc3", {}}, summary(StopReason::kEndToken)));
  const auto content = answer["choices"][0]["message"]["content"].get<std::string>();
  EXPECT_TRUE(content.starts_with("a\xEF\xBF\xBD")) << content;
}

// ---- several choices

AnswerIdentity two_of_two(Endpoint endpoint) {
  auto who = identity(endpoint);
  who.requests = {RequestId{1}, RequestId{2}, RequestId{3}, RequestId{4}};
  who.choices_per_prompt = 2;
  return who;
}

std::vector<Choice> four_choices() {
  std::vector<Choice> choices;
  for (const char* text : {"a", "b", "c", "d"}) {
    choices.push_back({{text, {}}, summary(StopReason::kEndToken)});
    choices.back().finished->figures.prompt_tokens = choices.size() <= 2 ? 4 : 10;
  }
  choices[2].finished->reason = StopReason::kLength;
  choices[3].finished->figures.last_version = 9;
  return choices;
}

TEST(AnswerChoices, EachHasItsIndexAndAPromptCountsOnce) {
  const auto answer = json::parse(whole_answer(two_of_two(Endpoint::kCompletion), four_choices()));
  ASSERT_EQ(answer["choices"].size(), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(answer["choices"][i]["index"], i);
  EXPECT_EQ(answer["choices"][3]["text"], "d");
  EXPECT_EQ(answer["choices"][2]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 14);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 24);
  EXPECT_EQ(answer["usage"]["total_tokens"], 38);
  EXPECT_EQ(answer["metrics"]["speculative_decoding"]["num_spec_steps"], 12);
  EXPECT_EQ(answer["metrics"]["speculative_decoding"]["draft_version"], 9);
  EXPECT_EQ(answer["metrics"]["speculative_decoding"]["by_proposer"]["draft"]["proposed"], 24);
  EXPECT_EQ(answer["metrics"]["speculative_decoding"]["by_proposer"]["prompt_lookup"]["accepted"], 8);
}

TEST(AnswerChoices, AStreamEndsWithTheLastToEnd) {
  auto who = two_of_two(Endpoint::kChat);
  who.include_usage = true;
  auto choices = four_choices();
  choices[1].finished.reset();
  choices[3].finished.reset();
  AnswerChannel::Taken taken;
  taken.part.text = "x";
  taken.finished = summary(StopReason::kEndToken);
  gather(who, 3, taken, /*kept=*/false, choices[3]);
  const auto third = events(stream_text(who, 3, taken, choices));
  ASSERT_EQ(third.size(), 2U) << "its text and its end, and nothing of the call's";
  EXPECT_EQ(third[1]["choices"][0]["index"], 3);
  EXPECT_EQ(third[1]["choices"][0]["finish_reason"], "stop");
  gather(who, 1, taken, /*kept=*/false, choices[1]);
  const std::string text = stream_text(who, 1, taken, choices);
  EXPECT_TRUE(text.ends_with("data: [DONE]\n\n"));
  const auto last = events(text);
  ASSERT_EQ(last.size(), 3U);
  EXPECT_EQ(last[1]["choices"][0]["index"], 1);
  EXPECT_EQ(last[2]["usage"]["completion_tokens"], 24);
  EXPECT_EQ(events(opening_events(who)).size(), 4U);
}

// Bug: continuous_usage_stats changed nothing: all chunks but the last had no usage.
TEST(AnswerChoices, EachChunkHasTheUsageOfItsChoiceSoFar) {
  auto who = two_of_two(Endpoint::kChat);
  who.include_usage = true;
  who.prompt_tokens = {4, 10};
  const auto opened = events(opening_events(who));
  EXPECT_EQ(opened[1]["usage"], json({{"prompt_tokens", 4}, {"completion_tokens", 0}, {"total_tokens", 4}}));
  auto choices = four_choices();
  choices[3].finished.reset();
  const auto next = [&](std::size_t n_tokens, bool ends) {
    AnswerChannel::Taken taken;
    taken.part.text = "x";
    taken.n_tokens = n_tokens;
    if (ends) taken.finished = summary(StopReason::kEndToken);
    gather(who, 3, taken, /*kept=*/false, choices[3]);
    return events(stream_text(who, 3, taken, choices));
  };
  EXPECT_EQ(next(2, false)[0]["usage"], json({{"prompt_tokens", 10}, {"completion_tokens", 2}, {"total_tokens", 12}}));
  const auto last = next(4, true);
  ASSERT_EQ(last.size(), 3U);
  EXPECT_EQ(last[0]["usage"]["completion_tokens"], 6);
  EXPECT_EQ(last[1]["usage"]["total_tokens"], 16) << "its finish reason";
  EXPECT_EQ(last[2]["usage"]["completion_tokens"], 24) << "the usage of the call";
}

TEST(AnswerChoices, AnEchoStandsBeforeEveryChoiceOfItsPrompt) {
  auto who = two_of_two(Endpoint::kCompletion);
  who.echoes = {"one ", "two "};
  const auto answer = json::parse(whole_answer(who, four_choices()));
  EXPECT_EQ(answer["choices"][1]["text"], "one b");
  EXPECT_EQ(answer["choices"][2]["text"], "two c");
  const auto opened = events(opening_events(who));
  ASSERT_EQ(opened.size(), 4U);
  EXPECT_EQ(opened[2]["choices"][0]["text"], "two ");
  EXPECT_EQ(opened[2]["choices"][0]["index"], 2);
}

}  // namespace
}  // namespace slip
