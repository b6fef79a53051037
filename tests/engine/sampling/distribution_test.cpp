// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/distribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "tests/engine/goodness_of_fit.h"

namespace slip {
namespace {

const Distribution kSkewed{{2, 3, 7, 9, 40}, {0.5, 0.3, 0.15, 0.0499, 0.0001}};

double distribution_p_value(const std::function<std::int32_t(RandomAddress)>& draw) {
  std::vector<std::int64_t> counts(kSkewed.ids.size());
  for (std::uint32_t i = 0; i < 200000; ++i) {
    const std::int32_t token = draw({.seed = 11, .output_index = i});
    for (std::size_t cell = 0; cell < counts.size(); ++cell) counts[cell] += kSkewed.ids[cell] == token ? 1 : 0;
  }
  return testing::chi_square_p_value(counts, kSkewed.probabilities);
}

TEST(DistributionTest, ProbabilityIsZeroOutsideTheSupport) {
  EXPECT_EQ(kSkewed.probability(7), 0.15);
  EXPECT_EQ(kSkewed.probability(8), 0);
  EXPECT_EQ(kSkewed.probability(1000), 0);
}

TEST(InverseCdfTest, CutsTheUnitIntervalInIdOrder) {
  const Distribution quarters{{1, 5, 6, 8}, {0.25, 0.25, 0.0, 0.5}};
  EXPECT_EQ(sample_inverse_cdf(quarters, 0), 1);
  EXPECT_EQ(sample_inverse_cdf(quarters, 0.25), 5);
  EXPECT_EQ(sample_inverse_cdf(quarters, 0.5), 8);  // the token of probability 0 is never drawn, not on a border either
  EXPECT_EQ(sample_inverse_cdf(quarters, 1 - 0x1.0p-53), 8);
  const Distribution first_is_zero{{1, 5}, {0.0, 1.0}};
  EXPECT_EQ(sample_inverse_cdf(first_is_zero, 0), 5);
}

TEST(InverseCdfTest, FollowsTheDistribution) {
  EXPECT_GT(distribution_p_value(
                [](RandomAddress at) { return sample_inverse_cdf(kSkewed, uniform(at, RandomPurpose::kDraft)); }),
            testing::kSignificance);
}

TEST(GumbelSamplingTest, FollowsTheDistribution) {
  EXPECT_GT(distribution_p_value([](RandomAddress at) { return sample_gumbel(kSkewed, at); }), testing::kSignificance);
}

TEST(GumbelSamplingTest, NegativeControlAnotherTemperatureIsCaught) {
  Distribution sharper = kSkewed;
  double total = 0;
  for (double& p : sharper.probabilities) total += p = std::pow(p, 1 / 0.97);
  for (double& p : sharper.probabilities) p /= total;
  EXPECT_LT(distribution_p_value([&](RandomAddress at) { return sample_gumbel(sharper, at); }), testing::kSignificance);
}

// The comparison of arrival times inside must pick the same token as the definition, argmax(log p + g).
TEST(GumbelSamplingTest, IsTheArgmaxOfLogProbabilityPlusNoise) {
  Distribution wide;
  for (std::int32_t id = 0; id < 500; ++id) {
    wide.ids.push_back(id * 3);
    wide.probabilities.push_back(std::exp(-0.02 * ((id * 7) % 500)));
  }
  for (std::uint32_t index = 0; index < 2000; ++index) {
    const RandomAddress at{.seed = 77, .choice = 2, .output_index = index};
    std::int32_t best = -1;
    double best_score = -INFINITY;
    for (std::size_t i = 0; i < wide.ids.size(); ++i) {
      const double score = std::log(wide.probabilities[i]) + gumbel(at, static_cast<std::uint32_t>(wide.ids[i]));
      if (score > best_score) best_score = score, best = wide.ids[i];
    }
    ASSERT_EQ(sample_gumbel(wide, at), best);
  }
}

}  // namespace
}  // namespace slip
