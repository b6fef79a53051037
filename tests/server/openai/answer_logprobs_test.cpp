// SPDX-License-Identifier: Apache-2.0
#include "server/openai/answer_logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/server/openai/answer_samples.h"

namespace slip {
namespace {

using nlohmann::json;
using testing::demo_words;
using testing::events;
using testing::first_special;
using testing::identity;
using testing::one_choice;
using testing::summary;
using testing::whole;

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
    const auto logprobs = events(delta_event(who, 0, taken.part, /*n_tokens=*/0))[0]["choices"][0]["logprobs"];
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

  // The prompt's tokens as the tokenizer has them, after `first` if it is one; the answer's are `answered`.
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
  const auto take = [&](AnswerChannel::Taken& taken) {
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

}  // namespace
}  // namespace slip
