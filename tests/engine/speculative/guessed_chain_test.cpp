// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/guessed_chain.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace slip {
namespace {

// The text goes round, so that a chain finds a next token without end.
const std::vector<std::int32_t> kTokens{1, 2, 3, 4, 5, 6, 9, 1, 2, 3};

Guesses guesses_of(GuessedChain& chain, std::int32_t most_guesses) {
  SequenceRef sequence;
  sequence.tokens = kTokens;
  sequence.prompt_tokens = static_cast<std::int32_t>(kTokens.size());
  sequence.most_guesses = most_guesses;
  chain.read(sequence);
  return chain.guesses();
}

// Bug: 16 tokens were looked up in each step, while a service proposes at most 8.
TEST(GuessedChain, LooksNoFurtherThanMayBeProposed) {
  const SequenceRef none;
  GuessedChain whole(none), limited(none), last(none), beyond(none);
  const Guesses all = guesses_of(whole, kMaxProposalNodes), five = guesses_of(limited, 5), one = guesses_of(last, 1);
  EXPECT_EQ(all.tokens.size(), std::size_t{kMaxProposalNodes});
  EXPECT_EQ(std::vector(five.tokens.begin(), five.tokens.end()), (std::vector<std::int32_t>{4, 5, 6, 9, 1}));
  EXPECT_EQ(std::vector(one.tokens.begin(), one.tokens.end()), std::vector<std::int32_t>{4});
  EXPECT_EQ(five.confidence, all.confidence) << "it is that of the first guess";
  EXPECT_EQ(one.confidence, all.confidence);
  EXPECT_EQ(guesses_of(beyond, 100).tokens.size(), std::size_t{kMaxProposalNodes});
}

}  // namespace
}  // namespace slip
