// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/vocabulary_math.h"

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
  const double sum = exp_differences(logits, 0, 1, out.data()).sum;
  EXPECT_EQ(out[0], 1.0);
  double expected_sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double expected = std::exp(static_cast<double>(logits[i]));
    EXPECT_NEAR(out[i] / expected, 1, 1e-15) << logits[i];
    expected_sum += expected;
  }
  EXPECT_NEAR(sum / expected_sum, 1, 1e-14);
  EXPECT_NEAR(sum_in_lanes(out) / expected_sum, 1, 1e-14);
}

// Terms of every size, and of equal size: errors of one sign would add up there.
TEST(VocabularyMath, SumOfExponentialsIsGoodToSinglePrecision) {
  for (const float spacing : {0.0F, 0.0001F, 0.0137F, 0.35F, 40.0F}) {
    std::vector<float> logits;
    double expected = 0;
    for (int i = 0; i < 5003; ++i) {
      logits.push_back(7.25F - static_cast<float>(i) * spacing);
      expected += std::exp(static_cast<double>(logits.back()) - 7.25);
    }
    EXPECT_NEAR(sum_exp_differences(logits, 7.25F) / expected, 1, 0x1p-21) << spacing;
  }
  EXPECT_EQ(sum_exp_differences(std::vector<float>{3, -85, -kInfinity}, 3), 1) << "what is below exp(−87) is 0";
}

TEST(VocabularyMath, WhatIsTooSmallIsZero) {
  const std::vector<float> logits{0, -709, -100000, -kInfinity, -354.5F};
  std::vector<double> out(logits.size());
  EXPECT_TRUE(exp_differences(logits, 0, 1, out.data()).has_zero);
  EXPECT_EQ(out, (std::vector<double>{1, 0, 0, 0, out[4]}));
  EXPECT_GT(out[4], 0);
  exp_differences(logits, 0, 0.5, out.data());  // colder
  EXPECT_EQ(out[4], 0);
  EXPECT_FALSE(exp_differences(std::span(logits).first(1), 0, 1, out.data()).has_zero);
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

TEST(VocabularyMath, OneLookFindsBrokenNumbersAndTheLargestAnywhere) {
  std::vector<float> maxima;
  constexpr std::size_t kSize = 2 * kScanStretch + 37;
  for (std::size_t at = 0; at < kSize; ++at) {
    std::vector<float> logits(kSize, -1);
    EXPECT_FALSE(scan_row(logits, maxima).is_broken);
    logits[at] = kInfinity;
    EXPECT_TRUE(scan_row(logits, maxima).is_broken);
    logits[at] = std::nanf("");
    EXPECT_TRUE(scan_row(logits, maxima).is_broken);
    for (std::size_t equal = at; equal < kSize; equal += 7) logits[equal] = 5;
    EXPECT_EQ(scan_row(logits, maxima).largest, 5);
    EXPECT_EQ(index_of_largest(logits, maxima, 5), at);
  }
  EXPECT_EQ(scan_row({}, maxima).largest, -kInfinity);
  EXPECT_FALSE(scan_row({}, maxima).is_broken);
  EXPECT_EQ(scan_row(std::vector<float>(40, -kInfinity), maxima).largest, -kInfinity);
}

TEST(VocabularyMath, EveryBlockTellsItsLargest) {
  constexpr std::size_t kSize = 2 * kScanStretch + 37;
  for (std::size_t at = 0; at < kSize; ++at) {
    std::vector<float> values(kSize, -2), maxima;
    values[at] = 7;
    scan_row(values, maxima);
    ASSERT_EQ(maxima.size(), 3 * kScanLanes);
    for (std::size_t block = 0; block < maxima.size(); ++block) {
      EXPECT_EQ(maxima[block], block == at / kScanStretch * kScanLanes + at % kScanLanes ? 7 : -2);
    }
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
