// SPDX-License-Identifier: Apache-2.0
#include "distill/warmup/warmup_prompts.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/distill/warmup/warmup_fixture.h"

namespace slip {
namespace {

using testing::StopAt;

class WarmupPromptsTest : public testing::WarmupTest {};

TEST_F(WarmupPromptsTest, TrainsOnGivenResponsesWithTheirEnd) {
  WarmupOptions given = options("given");
  given.answers_from = AnswersFrom::kData;
  given.max_tokens = 40;
  PromptsLeftOut left_out;
  const auto prompts = read_warmup_prompts(given, left_out);
  ASSERT_EQ(prompts.size(), 14U);
  EXPECT_EQ(prompts[3].response.back(), 1);
  given.max_tokens = 2;
  EXPECT_EQ(read_warmup_prompts(given, left_out)[3].response.size(), 2U);
  StopAt observer;
  EXPECT_EQ(run_warmup(given, observer).steps, 6);
}

TEST_F(WarmupPromptsTest, ShareTakesTheFirstRowsRoundedDown) {
  WarmupOptions some = options("x");
  some.share = 0.25;
  PromptsLeftOut left_out;
  const auto few = read_warmup_prompts(some, left_out);
  EXPECT_EQ(left_out.beyond_share, 11);
  some.share = 1;
  const auto all = read_warmup_prompts(some, left_out);
  EXPECT_EQ(left_out.beyond_share, 0);
  ASSERT_EQ(few.size(), 3U);
  for (std::size_t i = 0; i < few.size(); ++i) EXPECT_EQ(few[i].tokens, all[i].tokens);
}

// The demo's draft.toml has share = 0.5: half of the prompts were not used, without a word.
TEST_F(WarmupPromptsTest, PromptsBeyondTheShareAreReported) {
  WarmupOptions some = options("x");
  some.share = 0.5;
  StopAt observer;
  run_warmup(some, observer);
  ASSERT_EQ(observer.notes.size(), 1U);
  EXPECT_EQ(observer.notes[0],
            "7 prompts are left out by share = 0.5: the first part of each file is used; --share 1 takes all");
}

TEST_F(WarmupPromptsTest, PromptsWithoutRoomForAnAnswerAreLeftOutAndReported) {
  std::string huge;
  for (int i = 0; i < 3000; ++i) huge += "word ";
  write("data.jsonl", prompts(14, false) + R"({"prompt": ")" + huge + "\"}\n");
  StopAt observer;
  run_warmup(options("x"), observer);
  ASSERT_FALSE(observer.notes.empty());
  EXPECT_EQ(observer.notes[0], "1 prompt leaves no room for an answer and is left out");
}

TEST(WarmupPrompts, SayWhereTheFaultIs) {
  const auto rows = parse_prompt_rows("{\"prompt\":\"a\",\"id\":1}\n\n {\"prompt\":\"b\"}", "f.jsonl", false);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].prompt, "b");
  auto fault = [](const char* text, bool response) {
    try {
      parse_prompt_rows(text, "f.jsonl", response);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("none");
  };
  EXPECT_NE(fault("{\"prompt\":\"a\"}\n{\"promt\":\"b\"}", false).find("f.jsonl:2"), std::string::npos);
  EXPECT_NE(fault("{\"prompt\":\"a\"}\n{\"prompt\":7}", false).find("f.jsonl:2"), std::string::npos);
  EXPECT_NE(fault("{\"prompt\":\"a\"}", true).find("response"), std::string::npos);
  EXPECT_NE(fault("not json", false).find("f.jsonl:1"), std::string::npos);
  EXPECT_NE(fault("[1]", false).find("f.jsonl:1"), std::string::npos);
}

}  // namespace
}  // namespace slip
