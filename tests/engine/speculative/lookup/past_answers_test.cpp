// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/lookup/past_answers.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "engine/speculative/lookup/prompt_lookup.h"

namespace slip {
namespace {

using Tokens = std::vector<std::int32_t>;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U, kEach = 5 * kMiB / 4;

TEST(HitRate, StartsAtThePriorAndFollowsWhatItSees) {
  HitRate rate;
  EXPECT_DOUBLE_EQ(rate.rate(0.3), 0.3);
  for (int i = 0; i < 100; ++i) rate.add(true);
  EXPECT_GT(rate.rate(0.3), 0.95);
  for (int i = 0; i < 10'000; ++i) rate.add(false);
  EXPECT_LT(rate.rate(0.3), 0.05) << "the old ones fade";
}

TEST(PastAnswers, ClassesTellLengthAndAgreement) {
  std::set<std::size_t> classes;
  for (const std::int32_t length : {1, 2, 3, 5, 8}) {
    for (const auto& [places, agree] : {std::pair{1, 1}, std::pair{8, 5}, std::pair{8, 6}}) {
      classes.insert(PastAnswers::class_of({length, 7, places, agree}));
    }
  }
  EXPECT_EQ(classes.size(), PastAnswers::kClasses);
  EXPECT_LT(*classes.rbegin(), PastAnswers::kClasses);
}

TEST(PastAnswers, OneAnswerIsEnoughToGuessTheNext) {
  PastAnswers past;
  past.add(Tokens{5, 6, 7, 8, 9}, 0);
  PromptLookup lookup({}, &past);
  const Tokens text{1, 2, 5, 6, 7};
  EXPECT_EQ(lookup.after(text, 2).token, 8);
  EXPECT_EQ(lookup.guess(text, Tokens{8}).token, 9);
  PromptLookup alone;
  EXPECT_EQ(alone.after(text, 2).token, -1);
}

// The last tokens of a prompt come before its answer, but are never guessed themselves.
TEST(PastAnswers, AnAnswersBeginningIsGuessedByThePromptsEnd) {
  PastAnswers past;
  past.add(Tokens{1, 2, 3, 4, 50, 60}, 4);
  const Tokens prompt{9, 3, 4};
  EXPECT_EQ(PromptLookup({}, &past).after(prompt, 3).token, 50);
  EXPECT_EQ(PromptLookup({}, &past).after(Tokens{9, 2, 3}, 3).token, -1) << "4 is the prompt's";
  EXPECT_EQ(PromptLookup({}, &past).after(Tokens{9, 2, 3, 4, 50}, 4).token, 60);
  Tokens long_prompt(100, 7);
  long_prompt.insert(long_prompt.end(), {8, 50});
  past.add(long_prompt, 101);
  EXPECT_EQ(past.longest(long_prompt, {}).length, 1) << "only 50 is followed by something";
  EXPECT_EQ(past.longest(std::span(long_prompt).first(101), {}).length, PastAnswers::kPromptTokens);
}

// What one request found out, the next one knows.
TEST(PastAnswers, HitRatesOutliveTheRequest) {
  PastAnswers past;
  const Tokens text{7, 8, 4, 7, 8};
  const double before = PromptLookup({}, &past).after(text, 5).rate;
  Tokens wrong;
  for (std::int32_t i = 0; i < 40; ++i) wrong.insert(wrong.end(), {1, 2, 100 + i});
  PromptLookup({}, &past).extend(wrong, 1);
  EXPECT_LT(PromptLookup({}, &past).after(text, 5).rate, before);
  EXPECT_DOUBLE_EQ(PromptLookup().after(text, 5).rate, before) << "without past answers it starts afresh";
}

// ---- the table ----

TEST(PastAnswersTable, EachTopicAndKeyHasItsOwn) {
  PastAnswersTable table(64 * kMiB);
  const auto mine = table.of({1}, {0});
  EXPECT_EQ(table.of({1}, {0}), mine);
  EXPECT_NE(table.of({1}, {1}), mine);
  EXPECT_NE(table.of({2}, {0}), mine);
  EXPECT_EQ(table.bytes(), 3 * kEach);
}

TEST(PastAnswersTable, TheLeastRecentlyUsedMakesRoom) {
  PastAnswersTable table(2 * kEach);
  const auto first = table.of({1}, {0}), second = table.of({1}, {1});
  EXPECT_EQ(table.of({1}, {0}), first);
  table.of({1}, {2});
  EXPECT_EQ(table.of({1}, {0}), first);
  EXPECT_NE(table.of({1}, {1}), second);
  EXPECT_EQ(table.bytes(), 2 * kEach);
}

TEST(PastAnswersTable, ForgetsOneKeysOrAll) {
  PastAnswersTable table(64 * kMiB);
  const auto one = table.of({1}, {0}), other = table.of({2}, {0});
  table.forget(TenantId{1});
  EXPECT_NE(table.of({1}, {0}), one);
  EXPECT_EQ(table.of({2}, {0}), other);
  table.forget(std::nullopt);
  EXPECT_EQ(table.bytes(), 0U);
}

TEST(PastAnswersTable, GivesNoneWhileDisabled) {
  PastAnswersTable table(64 * kMiB);
  const auto kept = table.of({1}, {0});
  table.set_enabled(false);
  EXPECT_EQ(table.of({1}, {0}), nullptr);
  table.set_enabled(true);
  EXPECT_EQ(table.of({1}, {0}), kept);
}

}  // namespace
}  // namespace slip
