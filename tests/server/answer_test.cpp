// SPDX-License-Identifier: Apache-2.0
#include "server/answer.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/answer_channel.h"
#include "server/reply.h"
#include "server/routes.h"

namespace slip {
namespace {

using nlohmann::json;

AnswerIdentity identity(Endpoint endpoint = Endpoint::kChat) {
  AnswerIdentity who;
  who.endpoint = endpoint;
  who.id = "chatcmpl-1";
  who.model = std::string("a-model");
  who.system_fingerprint = "fp_0123";
  who.created_s = 5;
  who.topic = "sql";
  who.topic_source = TopicSource::kLabel;
  who.draft = "sql";
  who.requests = {RequestId{1}};
  return who;
}

RequestSummary summary(StopReason reason) {
  RequestSummary summary;
  summary.reason = reason;
  summary.figures.prompt_tokens = 4;
  summary.figures.output_tokens = 6;
  summary.figures.steps = 3;
  summary.figures.proposed = 9;
  summary.figures.accepted = 3;
  summary.figures.first_rejections = 2;
  summary.figures.last_version = 7;
  return summary;
}

std::shared_ptr<const Tokenizer> demo_words() {
  return Tokenizer::load(std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target");
}

std::int32_t first_special(const Tokenizer& tokenizer) {
  std::int32_t id = 0;
  while (!tokenizer.is_special(id)) ++id;
  return id;
}

std::vector<Choice> one_choice(AnswerPart part, const RequestSummary& ended) {
  return {{std::move(part), ended}};
}

std::string whole(const AnswerIdentity& who, AnswerPart part, const RequestSummary& ended) {
  return whole_answer(who, one_choice(std::move(part), ended));
}

std::string closing(const AnswerIdentity& who, const RequestSummary& ended) {
  return closing_events(who, 0, one_choice({}, ended));
}

std::string streamed(const AnswerIdentity& who, AnswerChannel::Taken taken) {
  std::vector<Choice> choices(1);
  gather(who, 0, taken, /*kept=*/false, choices[0]);
  return stream_text(who, 0, taken, choices);
}

// Every event is one `data: ` line and an empty one.
std::vector<json> events(const std::string& text) {
  std::vector<json> parsed;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find("\n\n", at);
    EXPECT_NE(end, std::string::npos) << "an event without its end";
    const std::string line = text.substr(at, end - at);
    EXPECT_EQ(line.find('\n'), std::string::npos) << "an event of more than one line";
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    if (line != "data: [DONE]") parsed.push_back(json::parse(line.substr(6)));
    at = end + 2;
  }
  return parsed;
}

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
  EXPECT_EQ(figures["draft"], "sql");
  EXPECT_EQ(figures["draft_version"], 7);
  EXPECT_EQ(figures["topic"], "sql");
  EXPECT_EQ(figures["topic_source"], "label");
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

TEST(Answer, MinusInfinityIsSentAsANumber) {
  auto who = identity();
  who.logprobs = true;
  who.tokenizer = Tokenizer::load(std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target");
  TokenLogprobs token;
  token.token = 100;
  token.logprob = -std::numeric_limits<float>::infinity();
  token.top = {{101, -0.5F}};
  const auto answer = json::parse(whole(who, {"x", {token}}, summary(StopReason::kEndToken)));
  const auto& entry = answer["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["logprob"], -9999.0);
  EXPECT_EQ(entry["top_logprobs"][0]["logprob"], -0.5);
  EXPECT_TRUE(entry["bytes"].is_array());
  who.endpoint = Endpoint::kCompletion;
  const auto completion = json::parse(whole(who, {"x", {token}}, summary(StopReason::kEndToken)));
  EXPECT_EQ(completion["choices"][0]["logprobs"]["token_logprobs"][0], -9999.0);
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

TEST(AnswerChoices, TextOffsetsGoOnFromDeltaToDelta) {
  auto who = identity(Endpoint::kCompletion);
  who.logprobs = true;
  who.tokenizer = Tokenizer::load(std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target");
  const auto ids = who.tokenizer->encode("SELECT \xC3\xA9t\xC3\xA9 FROM", SpecialTokens::kAsText);
  ASSERT_GT(ids.size(), 3U);
  std::vector<Choice> choices(1);
  std::vector<std::size_t> offsets;
  std::string tokens;
  for (const auto id : ids) {
    AnswerChannel::Taken taken;
    taken.part.logprobs = {{id, -1, {{id + 1, -0.5F}}}};
    gather(who, 0, taken, /*kept=*/false, choices[0]);
    const auto logprobs = events(delta_event(who, 0, taken.part))[0]["choices"][0]["logprobs"];
    offsets.push_back(logprobs["text_offset"][0]);
    EXPECT_EQ(logprobs["top_logprobs"][0].size(), 2U) << "the token itself is always there";
  }
  EXPECT_EQ(offsets.front(), 0U);
  EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end()));
  EXPECT_LT(offsets.back(), 15U);
  EXPECT_EQ(choices[0].part.begins.answer_characters, 15U) << "characters, not bytes";
}

// ---- scored prompts

struct ScoredPrompt {
  AnswerIdentity who = identity(Endpoint::kCompletion);
  AnswerPart part;

  // The prompt's tokens as the tokenizer has them, behind `first` if it is one; the answer's are `answered`.
  ScoredPrompt(const std::string& text, std::int32_t first, const std::vector<std::int32_t>& answered) {
    who.tokenizer = demo_words();
    who.logprobs = who.prompt_scored = true;
    who.echoes = {text};
    auto ids = who.tokenizer->encode(text, SpecialTokens::kParse);
    if (first >= 0) ids.insert(ids.begin(), first);
    for (const auto id : ids) part.prompt_logprobs.push_back({id, -2, {{id + 1, -0.5F}}});
    part.prompt_logprobs[0].logprob = std::numeric_limits<float>::quiet_NaN();
    part.prompt_logprobs[0].top.clear();
    for (const auto id : answered) part.logprobs.push_back({id, -1, {{id, -1}}});
    part.text = who.tokenizer->decode(answered);
  }
  json whole() const {
    return json::parse(slip::whole_answer(who, one_choice(part, summary(StopReason::kLength))))["choices"][0];
  }
};

TEST(ScoredPrompt, ItsTokensStandBeforeTheAnswersFromOffsetZero) {
  ScoredPrompt scored("SELECT \xC3\xA9t\xC3\xA9", -1, {});
  const auto answered = scored.who.tokenizer->encode(" FROM users", SpecialTokens::kAsText);
  scored = ScoredPrompt("SELECT \xC3\xA9t\xC3\xA9", -1, answered);
  const auto choice = scored.whole();
  const auto& columns = choice["logprobs"];
  const std::size_t n_prompt = scored.part.prompt_logprobs.size(), n = n_prompt + answered.size();
  for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
    ASSERT_EQ(columns[name].size(), n) << name;
  }
  EXPECT_TRUE(columns["token_logprobs"][0].is_null());
  EXPECT_TRUE(columns["top_logprobs"][0].is_null());
  EXPECT_EQ(columns["token_logprobs"][1], -2.0);
  EXPECT_EQ(columns["top_logprobs"][1].size(), 2U);
  EXPECT_EQ(columns["token_logprobs"][n_prompt], -1.0);
  EXPECT_EQ(columns["text_offset"][0], 0);
  EXPECT_EQ(columns["text_offset"][n_prompt], 10) << "characters of the echo";
  EXPECT_EQ(choice["text"], "SELECT \xC3\xA9t\xC3\xA9 FROM users");
  const auto last_name = columns["tokens"][n - 1].get<std::string>();
  EXPECT_EQ(columns["text_offset"][n - 1], 21 - last_name.size());
}

// Clients cut the context off by counting its tokens: each has an entry, whether it is seen in the text or not.
TEST(ScoredPrompt, SpecialTokensHaveEntriesAndTakeTheRoomTheyHaveInTheText) {
  const auto tokenizer = demo_words();
  const std::int32_t special = first_special(*tokenizer);
  const std::string content(tokenizer->token_content(special));
  const auto put_before = ScoredPrompt("SELECT", special, {special}).whole()["logprobs"];
  EXPECT_EQ(put_before["tokens"][0], content);
  EXPECT_EQ(put_before["text_offset"][1], 0) << "the echo does not show it";
  EXPECT_EQ(put_before["tokens"].back(), content) << "the end token counts too";
  EXPECT_EQ(put_before["text_offset"].back(), 6);
  const auto in_text = ScoredPrompt(content + "SELECT", -1, {}).whole()["logprobs"];
  EXPECT_EQ(in_text["tokens"][0], content);
  EXPECT_EQ(in_text["text_offset"][1], content.size());
}

TEST(ScoredPrompt, StreamsPieceByPieceWhatTheWholeAnswerSays) {
  const ScoredPrompt scored("SELECT \xC3\xA9t\xC3\xA9 FROM", -1, {300, 301, 302});
  json streamed = {{"tokens", {}}, {"token_logprobs", {}}, {"top_logprobs", {}}, {"text_offset", {}}};
  std::vector<Choice> choices(1);
  const auto take = [&](AnswerChannel::Taken taken) {
    EXPECT_FALSE(taken.empty());
    gather(scored.who, 0, taken, /*kept=*/false, choices[0]);
    const auto delta = events(stream_text(scored.who, 0, taken, choices)).at(0)["choices"][0];
    EXPECT_EQ(delta["text"], "") << "the echo came in the opening";
    for (auto& [name, column] : streamed.items()) {
      for (const auto& value : delta["logprobs"][name]) column.push_back(value);
    }
  };
  for (const auto& token : scored.part.prompt_logprobs) {
    AnswerChannel::Taken taken;
    taken.part.prompt_logprobs = {token};
    take(taken);
  }
  for (const auto& token : scored.part.logprobs) {
    AnswerChannel::Taken taken;
    taken.part.logprobs = {token};
    taken.n_tokens = 1;
    take(taken);
  }
  EXPECT_EQ(streamed, scored.whole()["logprobs"]);
  EXPECT_EQ(events(opening_events(scored.who)).at(0)["choices"][0]["text"], scored.who.echoes[0]);
}

// Two tokens of broken UTF-8 came out as the same replaced key, twice in one object.
TEST(AnswerChoices, TokensThatAreNoWholeCharactersAreNamedByTheirBytes) {
  auto who = identity(Endpoint::kCompletion);
  who.logprobs = true;
  who.tokenizer = Tokenizer::load(std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target");
  std::vector<std::int32_t> broken;
  for (std::int32_t id = 0; id < who.tokenizer->vocab_size() && broken.size() < 2; ++id) {
    const auto bytes = who.tokenizer->token_bytes(id);
    if (bytes.size() == 1 && static_cast<unsigned char>(bytes[0]) >= 0x80) broken.push_back(id);
  }
  ASSERT_EQ(broken.size(), 2U);
  const auto answer =
      json::parse(whole(who, {"", {{broken[0], -1, {{broken[1], -0.5F}}}}}, summary(StopReason::kEndToken)));
  const auto& logprobs = answer["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["top_logprobs"][0].size(), 2U);
  EXPECT_TRUE(logprobs["tokens"][0].get<std::string>().starts_with("bytes:\\x"));
}

TEST(AnswerChannel, GathersInOrderAndWakes) {
  int woken = 0;
  AnswerChannel channel(1000, [&] { ++woken; });
  channel.on_tokens({{1}, "a", {}});
  channel.on_tokens({{2, 3}, "b", {}});
  const auto first = channel.take();
  EXPECT_EQ(first.part.text, "ab");
  EXPECT_EQ(first.n_tokens, 3U);
  EXPECT_FALSE(first.finished);
  EXPECT_TRUE(channel.take().empty());
  channel.on_finished(summary(StopReason::kEndToken));
  EXPECT_TRUE(channel.take().finished);
  EXPECT_EQ(woken, 3);
}

TEST(AnswerChannel, OverflowIsSaidAndKeepsNothingMore) {
  AnswerChannel channel(10, [] {});
  channel.on_tokens({{1}, "0123456789", {}});
  EXPECT_FALSE(AnswerChannel(channel.take().overflowed ? 0 : 1, [] {}).take().overflowed);
  channel.on_tokens({{1}, "0123456789", {}});
  channel.on_tokens({{2}, "x", {}});
  const auto taken = channel.take();
  EXPECT_TRUE(taken.overflowed);
  EXPECT_EQ(taken.part.text, "0123456789");
}

TEST(Reply, ErrorsHaveOneShape) {
  const Error error(ErrorCode::kInvalidArgument, "bad", "do better", "temperature");
  const auto body = json::parse(error_reply(error, 1).body)["error"];
  EXPECT_EQ(body["message"], "bad; do better");
  EXPECT_EQ(body["type"], "invalid_request_error");
  EXPECT_EQ(body["param"], "temperature");
  EXPECT_TRUE(body["code"].is_null());
  EXPECT_EQ(body.size(), 4U);
}

TEST(Reply, CodesMapToStatusesOnce) {
  const std::pair<ErrorCode, int> cases[] = {
      {ErrorCode::kInvalidArgument, 400}, {ErrorCode::kUnsupported, 400}, {ErrorCode::kNotFound, 404},
      {ErrorCode::kUnauthenticated, 401}, {ErrorCode::kPermission, 403},  {ErrorCode::kTooLarge, 400},
      {ErrorCode::kOverloaded, 429},      {ErrorCode::kUnavailable, 503}, {ErrorCode::kIo, 500},
      {ErrorCode::kDataLoss, 500},        {ErrorCode::kInternal, 500}};
  for (const auto& [code, status] : cases) {
    const Reply reply = error_reply(Error(code, "x"), 3);
    EXPECT_EQ(reply.status, status);
    const bool says_when = status == 429 || status == 503;
    EXPECT_EQ(reply.headers.size(), says_when ? 1U : 0U);
    if (!says_when) continue;
    EXPECT_EQ(reply.headers[0], (std::pair<std::string, std::string>("Retry-After", "3")));
  }
}

TEST(Reply, DateIsRfc9110) {
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
}

}  // namespace
}  // namespace slip
