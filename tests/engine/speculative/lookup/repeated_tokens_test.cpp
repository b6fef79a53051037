// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/lookup/repeated_tokens.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace slip {
namespace {

using Ints = std::vector<std::int32_t>;

Ints counting(std::int32_t n) {
  Ints tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(RepeatedTokens, NoneInFreshText) {
  EXPECT_EQ(count_repeated_tokens(Ints{}), 0);
  EXPECT_EQ(count_repeated_tokens(counting(100)), 0);
  Ints seven_again = counting(20);
  for (std::int32_t i = 0; i < 7; ++i) seven_again.push_back(i);
  EXPECT_EQ(count_repeated_tokens(seven_again), 0);
}

TEST(RepeatedTokens, CountTheSecondTimeOnly) {
  Ints twice = counting(20);
  for (std::int32_t i = 0; i < 10; ++i) twice.push_back(i);
  EXPECT_EQ(count_repeated_tokens(twice), 10);  // three overlapping 8-grams of ten tokens
  twice.push_back(99);
  EXPECT_EQ(count_repeated_tokens(twice), 10);
}

TEST(RepeatedTokens, AConstantAnswerRepeatsAllButItsFirst) {
  EXPECT_EQ(count_repeated_tokens(Ints(50, 3)), 49);
}

}  // namespace
}  // namespace slip
