// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/lookup/predicted_text.h"

#include <gtest/gtest.h>

#include "engine/speculative/lookup/prompt_lookup.h"

namespace slip {
namespace {

using Tokens = std::vector<std::int32_t>;

// The guesses before each token of `answer`, and the one after it.
Tokens guesses_along(const Tokens& text, const Tokens& answer) {
  PredictedText predicted(text);
  Tokens guesses{predicted.guess().token};
  for (std::size_t n = 1; n <= answer.size(); ++n) {
    predicted.read(std::span(answer).first(n));
    guesses.push_back(predicted.guess().token);
  }
  return guesses;
}

TEST(PredictedText, GuessesTheTextFromTheFirstTokenToItsEnd) {
  EXPECT_EQ(guesses_along({5, 6, 7}, {5, 6, 7, 8}), (Tokens{5, 6, 7, -1, -1}));
  EXPECT_EQ(guesses_along({}, {5}), (Tokens{-1, -1}));
}

TEST(PredictedText, AReplacedTokenDoesNotLoseThePlace) {
  EXPECT_EQ(guesses_along({5, 6, 7, 8}, {5, 9, 7, 8}), (Tokens{5, 6, 7, 8, -1}));
}

// Three new tokens, then the text goes on: two equal tokens find the place again.
TEST(PredictedText, FindsThePlaceAgainAfterAnInsertion) {
  EXPECT_EQ(guesses_along({5, 6, 7, 8, 9, 10}, {5, 6, 1, 2, 3, 7, 8, 9}), (Tokens{5, 6, 7, 8, -1, -1, -1, 9, 10}));
}

TEST(PredictedText, FindsThePlaceAgainAfterADeletion) {
  EXPECT_EQ(guesses_along({5, 6, 7, 8, 9, 10, 11}, {5, 8, 9, 10}), (Tokens{5, 6, 7, 10, 11}));
}

// Of two equally long matches the nearer one: a file repeats its lines.
TEST(PredictedText, TakesTheNearestOfEqualPlaces) {
  const Tokens text{1, 2, 3, 90, 50, 1, 2, 3, 91, 51, 1, 2, 3, 92};
  const Tokens answer{1, 2, 3, 90, 50, 70, 71, 1, 2};
  EXPECT_EQ(guesses_along(text, answer).back(), 3);
  Tokens longer = answer;
  longer.push_back(3);
  EXPECT_EQ(guesses_along(text, longer).back(), 91);
}

// A long text costs no more than a short one while the answer has left it.
TEST(PredictedText, SearchesOnlyAroundTheLastPlace) {
  Tokens text(20000, 0);
  text[3000] = 1, text[3001] = 2, text[3002] = 3;
  text[15000] = 4, text[15001] = 5, text[15002] = 6;
  EXPECT_EQ(guesses_along(text, {8, 9, 1, 2}).back(), 3);
  EXPECT_EQ(guesses_along(text, {8, 9, 4, 5}).back(), -1);
}

TEST(PredictedText, GuessesBehindProposedTokensThatFollowIt) {
  PredictedText predicted(Tokens{5, 6, 7});
  EXPECT_EQ(predicted.guess(Tokens{5, 6}).token, 7);
  EXPECT_EQ(predicted.guess(Tokens{5, 6, 7}).token, -1);
  EXPECT_EQ(predicted.guess(Tokens{5, 9}).token, -1);
}

TEST(PredictedText, APromptLookupPrefersTheGuessThatWasRightMoreOften) {
  const Tokens prompt{1, 2, 30, 1, 2};
  PromptLookup with(Tokens{40, 41, 42}), without;
  EXPECT_EQ(without.after(prompt, 5).token, 30);
  EXPECT_EQ(with.after(prompt, 5).token, 40);
  EXPECT_TRUE(with.guess(prompt).is_confident());
  Tokens text = prompt;  // the answer repeats the prompt and never the prediction
  for (int i = 0; i < 12; ++i) {
    text.push_back(i % 3 == 0 ? 30 : i % 3);
    with.extend(text, 5);
  }
  EXPECT_EQ(with.guess(text).token, 30);
}

}  // namespace
}  // namespace slip
