// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/prompt_lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/sampling/random.h"

namespace slip {
namespace {

using Tokens = std::vector<std::int32_t>;

PromptLookup after(const Tokens& tokens, std::int32_t prompt_tokens) {
  PromptLookup lookup;
  lookup.extend(tokens, prompt_tokens);
  return lookup;
}

// Text from a small alphabet, so that it repeats itself.
Tokens random_text(std::uint64_t seed, std::size_t n, double alphabet) {
  Tokens text;
  for (std::size_t i = 0; i < n; ++i) {
    const double u = uniform({seed, 0, static_cast<std::uint32_t>(i)}, RandomPurpose::kDraft);
    text.push_back(static_cast<std::int32_t>(u * alphabet));
  }
  return text;
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
    const Tokens text = random_text(5, 300, alphabet);
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
  EXPECT_GT(after(right, 6).guess(right).weight, 0.5);
  EXPECT_TRUE(after(right, 6).guess(right).is_confident());
  EXPECT_LT(after(wrong, 6).guess(wrong).weight, 0.05);
  EXPECT_GT(after(wrong, 0).guess(wrong).weight, 0);
  // A prompt says nothing about how much its answer repeats.
  EXPECT_EQ(after(wrong, static_cast<std::int32_t>(wrong.size())).guess(wrong).weight,
            after(Tokens{1, 2, 3, 1, 2}, 5).guess(Tokens{1, 2, 3, 1, 2}).weight);
}

TEST(PromptLookup, HowManyTokensItReadsAtOnceDoesNotMatter) {
  const Tokens text = random_text(9, 200, 8);
  const PromptLookup at_once = after(text, 30);
  PromptLookup in_pieces;
  for (std::size_t n = 0; n <= text.size(); n += 1 + n % 7) in_pieces.extend(std::span(text).first(n), 30);
  in_pieces.extend(text, 30);
  const auto a = at_once.guess(text), b = in_pieces.guess(text);
  EXPECT_EQ(a.token, b.token);
  EXPECT_EQ(a.weight, b.weight);
}

// ---- its part in a draft's distribution ----

const Distribution kHalves{{2, 4, 9}, {0.5, 0.3, 0.2}};

TEST(MixGuess, TheMixtureIsADistribution) {
  for (const std::int32_t token : {0, 2, 3, 9, 12}) {
    Distribution q = kHalves;
    mix_guess({token, 0.4}, /*processed=*/false, q);
    EXPECT_TRUE(std::is_sorted(q.ids.begin(), q.ids.end()));
    EXPECT_EQ(q.ids.size(), q.probabilities.size());
    EXPECT_NEAR(std::accumulate(q.probabilities.begin(), q.probabilities.end(), 0.0), 1, 1e-12);
    EXPECT_NEAR(q.probability(token), 0.6 * kHalves.probability(token) + 0.4, 1e-12);
    EXPECT_NEAR(q.probability(4), 0.6 * 0.3, 1e-12);
  }
}

TEST(MixGuess, NoGuessChangesNothing) {
  Distribution q = kHalves;
  mix_guess({}, /*processed=*/false, q);
  EXPECT_EQ(q.ids, kHalves.ids);
  EXPECT_EQ(q.probabilities, kHalves.probabilities);
}

// A grammar, a bias or a minimum length forbids tokens: the text does not know that.
TEST(MixGuess, WhatTheRequestForbidsIsNotProposed) {
  Distribution q = kHalves;
  mix_guess({3, 0.9}, /*processed=*/true, q);
  EXPECT_EQ(q.ids, kHalves.ids);
  EXPECT_EQ(q.probabilities, kHalves.probabilities);
  mix_guess({4, 0.5}, /*processed=*/true, q);
  EXPECT_NEAR(q.probability(4), 0.65, 1e-12);
}

TEST(GreedyWithGuess, IsTheArgmaxOfTheMixture) {
  const std::vector<float> logits{0.1F, 2.0F, 1.5F, -3.0F};
  for (std::int32_t token = -1; token < 4; ++token) {
    for (const double weight : {0.01, 0.1, 0.3, 0.45, 0.49, 0.5, 0.9}) {
      std::vector<double> mixture;
      const double normalizer = log_normalizer(logits);
      for (const float logit : logits) mixture.push_back((1 - weight) * std::exp(logit - normalizer));
      if (token >= 0) mixture[static_cast<std::size_t>(token)] += weight;
      const auto best = std::max_element(mixture.begin(), mixture.end()) - mixture.begin();
      EXPECT_EQ(greedy_with_guess(logits, {token, weight}), best) << token << " at " << weight;
    }
  }
}

}  // namespace
}  // namespace slip
