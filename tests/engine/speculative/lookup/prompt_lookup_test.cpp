// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/lookup/prompt_lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/engine/speculative/lookup/repeating_text.h"

namespace slip {
namespace {

using testing::repeating_text;
using Tokens = std::vector<std::int32_t>;

PromptLookup after(const Tokens& tokens, std::int32_t prompt_tokens) {
  PromptLookup lookup;
  lookup.extend(tokens, prompt_tokens);
  return lookup;
}

// The definition: of the earlier positions whose last 2 to 8 tokens equal the end of the text, the longest match, and
// of equal ones the latest.
std::int32_t by_definition(const Tokens& text) {
  std::int32_t token = -1;
  std::size_t longest = 1;
  for (std::size_t end = text.size() - 1; end-- > 1;) {
    std::size_t length = 0;
    while (length < 8 && length <= end && text[end - length] == text[text.size() - 1 - length]) ++length;
    if (length > longest) longest = length, token = text[end + 1];
  }
  return token;
}

TEST(PromptLookup, GuessesWhatFollowedTheLongestStretch) {
  const Tokens text{1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3};
  EXPECT_EQ(after(text, 11).guess(text).token, 4);
  EXPECT_EQ(after(text, 11).guess(text, Tokens{4}).token, 9);  // proposed tokens continue from there
}

TEST(PromptLookup, TextThatNeverEndedLikeThisGivesNoGuess) {
  for (const Tokens& text : {Tokens{}, Tokens{7}, Tokens{7, 7}, Tokens{1, 2, 3, 4}}) {
    EXPECT_EQ(after(text, 0).guess(text).token, -1);
    EXPECT_FALSE(after(text, 0).guess(text).is_confident());
  }
}

TEST(PromptLookup, AgreesWithTheDefinition) {
  for (const double alphabet : {3.0, 6.0, 40.0}) {
    const Tokens text = repeating_text(5, 300, alphabet);
    PromptLookup lookup;
    for (std::size_t n = 2; n < text.size(); ++n) {
      const Tokens so_far(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n));
      lookup.extend(so_far, 10);
      const PromptLookup::Guess guess = lookup.guess(so_far);
      const std::int32_t expected = by_definition(so_far);
      EXPECT_EQ(guess.token < 0, expected < 0) << n;
      if (alphabet > 3) {  // with three tokens a pair has more places than are looked at
        EXPECT_EQ(guess.token, expected) << n;
      }
    }
  }
}

// 8,000 different pairs share 16,384 slots.
TEST(PromptLookup, PairsOfOneSlotAreToldApart) {
  Tokens text(8000);
  std::iota(text.begin(), text.end(), 0);
  const PromptLookup lookup = after(text, 100);
  for (std::int32_t token = 0; token + 2 < 8000; token += 7) {
    EXPECT_EQ(lookup.guess(text, Tokens{token, token + 1}).token, token + 2);
    EXPECT_EQ(lookup.guess(text, Tokens{token, token}).token, -1);
  }
}

TEST(PromptLookup, IsBelievedAsFarAsItWasRight) {
  Tokens right, wrong;
  for (std::int32_t i = 0; i < 40; ++i) {
    right.insert(right.end(), {1, 2, 3});
    wrong.insert(wrong.end(), {1, 2, 100 + i});  // what followed is always something else
  }
  wrong.insert(wrong.end(), {1, 2});
  EXPECT_GT(after(right, 6).guess(right).rate, 0.8);
  EXPECT_TRUE(after(right, 6).guess(right).is_confident());
  EXPECT_LT(after(wrong, 6).guess(wrong).rate, 0.08);
  EXPECT_GT(after(wrong, 0).guess(wrong).rate, 0);
  // A prompt says nothing about how much its answer repeats.
  EXPECT_EQ(after(wrong, static_cast<std::int32_t>(wrong.size())).guess(wrong).rate,
            after(Tokens{1, 2, 3, 1, 2}, 5).guess(Tokens{1, 2, 3, 1, 2}).rate);
}

TEST(PromptLookup, HowManyTokensItReadsAtOnceDoesNotMatter) {
  const Tokens text = repeating_text(9, 200, 8);
  const PromptLookup at_once = after(text, 30);
  PromptLookup in_pieces;
  for (std::size_t n = 0; n <= text.size(); n += 1 + n % 7) in_pieces.extend(std::span(text).first(n), 30);
  in_pieces.extend(text, 30);
  const auto a = at_once.guess(text), b = in_pieces.guess(text);
  EXPECT_EQ(a.token, b.token);
  EXPECT_EQ(a.rate, b.rate);
}

// ---- beside a draft ----

// The text goes round in `period` tokens, and the draft says something else each time, with probability 0.9.
PromptLookup beside_a_draft(const Tokens& text, std::size_t prompt_tokens, std::int32_t drafted, bool draft_is_right) {
  PromptLookup lookup;
  for (std::size_t n = prompt_tokens; n < text.size(); ++n) {
    const auto before = std::span(text).first(n);
    const PromptLookup::Guess guess = lookup.after(before, static_cast<std::int32_t>(prompt_tokens));
    const std::int32_t token = draft_is_right ? text[n] : drafted;
    if (guess.token >= 0) lookup.add_drafted(guess, {token, 0.9, 0.01}, {}, token);
  }
  lookup.extend(text, static_cast<std::int32_t>(prompt_tokens));
  return lookup;
}

TEST(PromptLookup, LearnsWhetherTheGuessOrTheDraftIsRightWhereTheyDiffer) {
  Tokens round, surprising;
  for (std::int32_t i = 0; i < 60; ++i) {
    round.insert(round.end(), {1, 2, 3});
    surprising.insert(surprising.end(), {1, 2, 100 + i});
  }
  surprising.insert(surprising.end(), {1, 2});
  const PromptLookup::DraftChoice sure{50, 0.9, 0.01}, unsure{50, 0.05, 0.04};
  const PromptLookup trusted = beside_a_draft(round, 6, 50, /*draft_is_right=*/false);
  EXPECT_TRUE(trusted.beats(trusted.guess(round), sure));
  EXPECT_GT(trusted.weight(trusted.guess(round), sure), 0.8);
  const PromptLookup distrusted = beside_a_draft(surprising, 6, 50, /*draft_is_right=*/true);
  EXPECT_FALSE(distrusted.beats(distrusted.guess(surprising), sure));
  EXPECT_LT(distrusted.weight(distrusted.guess(surprising), sure), 0.1);
  // Before anything was seen, the draft's lead decides.
  const PromptLookup::Guess guess = after(round, 180).guess(round);
  EXPECT_FALSE(after(round, 180).beats(guess, sure));
  EXPECT_TRUE(after(round, 180).beats(guess, unsure));
}

TEST(PromptLookup, PlacesBehindARejectedTokenAreNotLearnedFrom) {
  Tokens text{1, 2, 3, 1, 2};
  PromptLookup lookup;
  const PromptLookup::Guess first = lookup.after(text, 5), second = lookup.guess(text, Tokens{9});
  lookup.add_drafted(first, {9, 0.9, 0.01}, {}, 9);
  lookup.add_drafted({8, 0.5, 0}, {7, 0.9, 0.01}, Tokens{9}, 7);
  EXPECT_EQ(second.token, -1);
  for (const std::int32_t token : {3, 8}) text.push_back(token);
  lookup.extend(text, 5);
  PromptLookup untold;
  untold.extend(Tokens{1, 2, 3, 1, 2}, 5);
  untold.extend(text, 5);
  const PromptLookup::DraftChoice choice{7, 0.9, 0.01};
  EXPECT_NE(first.kind, 0U);
  EXPECT_EQ(lookup.weight({8, 0.5, 0}, choice), untold.weight({8, 0.5, 0}, choice));
  EXPECT_NE(lookup.weight({3, 0.5, first.kind}, choice), untold.weight({3, 0.5, first.kind}, choice));
}

TEST(DraftChoiceOf, IsTheMostLikelyTokenAndItsProbabilities) {
  const std::vector<float> logits{0.1F, 2.0F, 1.5F, -3.0F};
  const double normalizer = log_normalizer(logits);
  const PromptLookup::DraftChoice choice = draft_choice_of(logits, 2);
  EXPECT_EQ(choice.token, 1);
  EXPECT_NEAR(choice.q, std::exp(2.0 - normalizer), 1e-6);
  EXPECT_NEAR(choice.q_of_guess, std::exp(1.5 - normalizer), 1e-6);
  EXPECT_EQ(draft_choice_of(logits, 1).token, 1);
  const Distribution halves{{2, 4, 9}, {0.5, 0.3, 0.2}};
  EXPECT_EQ(draft_choice_of(halves, 4).token, 2);
  EXPECT_EQ(draft_choice_of(halves, 4).q, 0.5);
  EXPECT_EQ(draft_choice_of(halves, 4).q_of_guess, 0.3);
  EXPECT_EQ(draft_choice_of(halves, 7).q_of_guess, 0);
}

TEST(MixGuess, TheMixtureIsADistribution) {
  const Distribution halves{{2, 4, 9}, {0.5, 0.3, 0.2}};
  for (const std::int32_t token : {0, 2, 3, 9, 12}) {
    Distribution q = halves;
    mix_guess(token, 0.4, q);
    EXPECT_TRUE(std::is_sorted(q.ids.begin(), q.ids.end()));
    EXPECT_EQ(q.ids.size(), q.probabilities.size());
    EXPECT_NEAR(std::accumulate(q.probabilities.begin(), q.probabilities.end(), 0.0), 1, 1e-12);
    EXPECT_NEAR(q.probability(token), 0.6 * halves.probability(token) + 0.4, 1e-12);
    EXPECT_NEAR(q.probability(4), 0.6 * 0.3, 1e-12);
  }
}

}  // namespace
}  // namespace slip
