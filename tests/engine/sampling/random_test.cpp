// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "tests/engine/goodness_of_fit.h"

namespace slip {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers published with the Random123 library (kat_vectors, philox4x32 10).
TEST(PhiloxTest, GivesTheKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomAddressTest, EveryFieldOfTheAddressMatters) {
  const RandomAddress base{.seed = 5, .choice = 1, .output_index = 9};
  std::set<double> seen{uniform(base, RandomPurpose::kDraft, 3)};
  EXPECT_TRUE(seen.insert(uniform({6, 1, 9}, RandomPurpose::kDraft, 3)).second);
  EXPECT_TRUE(seen.insert(uniform({5 + (std::uint64_t{1} << 32), 1, 9}, RandomPurpose::kDraft, 3)).second);
  EXPECT_TRUE(seen.insert(uniform({5, 2, 9}, RandomPurpose::kDraft, 3)).second);
  EXPECT_TRUE(seen.insert(uniform({5, 1, 10}, RandomPurpose::kDraft, 3)).second);
  EXPECT_TRUE(seen.insert(uniform(base, RandomPurpose::kAccept, 3)).second);
  EXPECT_TRUE(seen.insert(uniform(base, RandomPurpose::kResidual, 3)).second);
  EXPECT_TRUE(seen.insert(uniform(base, RandomPurpose::kDraft, 4)).second);
  EXPECT_EQ(uniform(base, RandomPurpose::kDraft, 3), uniform(base, RandomPurpose::kDraft, 3));
}

double uniformity_p_value(double (*draw)(std::uint32_t)) {
  constexpr int kBins = 50;
  std::vector<std::int64_t> counts(kBins);
  for (std::uint32_t i = 0; i < 200000; ++i) ++counts.at(static_cast<std::size_t>(draw(i) * kBins));
  return testing::chi_square_p_value(counts, std::vector<double>(kBins, 1.0 / kBins));
}

TEST(UniformTest, IsUniformAlongTokensAndOutputIndices) {
  EXPECT_GT(uniformity_p_value([](std::uint32_t i) {
              return uniform({1, 0, i}, RandomPurpose::kAccept);
            }),
            testing::kSignificance);
  EXPECT_GT(uniformity_p_value([](std::uint32_t i) {
              return uniform({1, 0, 7}, RandomPurpose::kDraft, i);
            }),
            testing::kSignificance);
  EXPECT_GT(uniformity_p_value([](std::uint32_t i) {
              return std::exp(-std::exp(-gumbel({1, 0, 7}, i)));
            }),
            testing::kSignificance);
}

TEST(UniformTest, NegativeControlSquaredDrawsAreNotUniform) {
  EXPECT_LT(uniformity_p_value([](std::uint32_t i) {
              const double u = uniform({1, 0, i}, RandomPurpose::kAccept);
              return u * std::sqrt(u);
            }),
            testing::kSignificance);
}

TEST(GumbelTest, IsFiniteAndItsUniformIsOpen) {
  for (std::uint32_t token = 0; token < 100000; ++token) {
    const double u = open_uniform({3, 0, 0}, token);
    ASSERT_TRUE(u > 0 && u < 1);
    ASSERT_TRUE(std::isfinite(gumbel({3, 0, 0}, token)));
  }
}

}  // namespace
}  // namespace slip
