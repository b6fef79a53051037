// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/goodness_of_fit.h"

#include <gtest/gtest.h>

#include <vector>

namespace slip::testing {
namespace {

// Quantiles from printed chi-square tables.
TEST(GoodnessOfFitTest, UpperGammaMatchesChiSquareTables) {
  EXPECT_NEAR(upper_gamma(0.5, 3.841458821 / 2), 0.05, 1e-9);
  EXPECT_NEAR(upper_gamma(5, 18.30703805 / 2), 0.05, 1e-9);
  EXPECT_NEAR(upper_gamma(50, 124.3421134 / 2), 0.05, 1e-9);
  EXPECT_NEAR(upper_gamma(1, 20), std::exp(-20.0), 1e-20);  // two degrees of freedom: exp(−x)
  EXPECT_NEAR(upper_gamma(312, 312), 0.4924706, 2e-5);      // the median of a gamma lies near a − 1/3
}

TEST(GoodnessOfFitTest, BinomialTailsMatchHandCounts) {
  EXPECT_NEAR(binomial_upper_tail(9, 10, 0.5), 11.0 / 1024, 1e-12);
  EXPECT_NEAR(binomial_lower_tail(1, 10, 0.5), 11.0 / 1024, 1e-12);
  EXPECT_EQ(binomial_p_value(10, 10, 1.0), 1.0);
  EXPECT_EQ(binomial_p_value(9, 10, 1.0), 0.0);
}

TEST(GoodnessOfFitTest, AnImpossibleCellRefutes) {
  EXPECT_EQ(chi_square_p_value(std::vector<std::int64_t>{999, 1}, std::vector<double>{1, 0}), 0);
}

TEST(GoodnessOfFitTest, PoolsCellsThatExpectLittle) {
  // 1000 draws: cells of 0.001 expect 1 each; alone, the count of 6 would be refused (p = 5.7e-7), pooled it is 6 of 5.
  const std::vector<double> distribution{0.495, 0.5, 0.001, 0.001, 0.001, 0.001, 0.001};
  EXPECT_GT(chi_square_p_value(std::vector<std::int64_t>{494, 500, 6, 0, 0, 0, 0}, distribution), 0.5);
}

}  // namespace
}  // namespace slip::testing
