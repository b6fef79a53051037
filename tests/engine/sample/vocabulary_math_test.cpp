// SPDX-License-Identifier: Apache-2.0
#include "engine/sample/vocabulary_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace slip {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(VocabularyMath, ExponentialsAreRightToTheLastBits) {
  std::vector<float> logits;
  for (int i = 0; i < 5003; ++i) logits.push_back(-static_cast<float>(i) * 0.1371F);
  std::vector<double> out(logits.size());
  const double sum = exp_differences(logits, 0, 1, out.data());
  EXPECT_EQ(out[0], 1.0);
  double expected_sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double expected = std::exp(static_cast<double>(logits[i]));
    EXPECT_NEAR(out[i] / expected, 1, 1e-15) << logits[i];
    expected_sum += expected;
  }
  EXPECT_NEAR(sum / expected_sum, 1, 1e-14);
  EXPECT_NEAR(sum_exp_differences(logits, 0) / expected_sum, 1, 1e-14);
  EXPECT_EQ(sum_in_lanes(out), sum);
}

TEST(VocabularyMath, WhatIsTooSmallIsZero) {
  const std::vector<float> logits{0, -709, -100000, -kInfinity, -354.5F};
  std::vector<double> out(logits.size());
  exp_differences(logits, 0, 1, out.data());
  EXPECT_EQ(out, (std::vector<double>{1, 0, 0, 0, out[4]}));
  EXPECT_GT(out[4], 0);
  exp_differences(logits, 0, 0.5, out.data());  // colder
  EXPECT_EQ(out[4], 0);
}

TEST(VocabularyMath, ManyUniformsAreTheOnesDrawnAlone) {
  std::vector<std::int32_t> tokens(777);
  std::iota(tokens.begin(), tokens.end(), 5);
  const RandomAddress address{.seed = 0xDEADBEEF12345678, .choice = 3, .output_index = 41};
  std::vector<double> out(tokens.size());
  open_uniforms(address, tokens, out.data());
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_EQ(out[i], open_uniform(address, static_cast<std::uint32_t>(tokens[i])));
  }
}

TEST(VocabularyMath, FindsBrokenNumbersAnywhere) {
  for (std::size_t at = 0; at < 70; ++at) {
    std::vector<float> logits(70, -1);
    EXPECT_TRUE(all_below_infinity(logits));
    logits[at] = kInfinity;
    EXPECT_FALSE(all_below_infinity(logits));
    logits[at] = std::nanf("");
    EXPECT_FALSE(all_below_infinity(logits));
    logits[at] = 5;
    EXPECT_EQ(largest_of(logits), 5);
  }
  EXPECT_EQ(largest_of({}), -kInfinity);
}

TEST(VocabularyMath, EveryBlockTellsItsLargest) {
  for (std::size_t at = 0; at < 3 * kMaximaBlock; ++at) {
    std::vector<float> values(3 * kMaximaBlock + 5, -2);
    values[at] = 7;
    std::vector<float> maxima(3);
    block_maxima(values, maxima);
    for (std::size_t block = 0; block < 3; ++block) EXPECT_EQ(maxima[block], block == at / kMaximaBlock ? 7 : -2);
  }
}

TEST(VocabularyMath, AnyWithinLooksAtEveryEntry) {
  for (std::size_t at = 0; at < 37; ++at) {
    std::vector<double> u(37, 0.5), p(37, 0.01);
    EXPECT_FALSE(any_within(u, p, 10));
    u[at] = 0.9;
    EXPECT_TRUE(any_within(u, p, 10.5));
  }
}

}  // namespace
}  // namespace slip
