// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/request_alphas.h"

#include <gtest/gtest.h>

#include <vector>

namespace slip {
namespace {

// Twice as many requests of n tested tokens, of which one half accepted `a` and the other `b`.
std::vector<TestedTokens> halves(int requests, int n, int a, int b) {
  std::vector<TestedTokens> all(static_cast<std::size_t>(requests), {n, a});
  all.insert(all.end(), static_cast<std::size_t>(requests), {n, b});
  return all;
}

// α = .6; the variance of the counts is 4, by chance it is 2.4, so ρ = 1.6 / (90 · .24) and w = 12.5.
TEST(RequestAlphas, AreShrunkAsFarAsChanceExplainsTheirDifference) {
  const RequestAlphas alphas = request_alphas(halves(20, 10, 8, 4));
  EXPECT_NEAR(alphas.all, 0.6, 1e-12);
  ASSERT_EQ(alphas.each.size(), 40U);
  EXPECT_NEAR(alphas.each.front(), (8 + 12.5 * 0.6) / 22.5, 1e-9);
  EXPECT_NEAR(alphas.each.back(), (4 + 12.5 * 0.6) / 22.5, 1e-9);
}

TEST(RequestAlphas, AreAllTheSameIfChanceExplainsTheirDifference) {
  for (const double alpha : request_alphas(halves(20, 10, 7, 5)).each) EXPECT_NEAR(alpha, 0.6, 1e-12);
}

TEST(RequestAlphas, ARequestWithMoreTokensIsNearerToItsOwnRate) {
  auto requests = halves(20, 10, 9, 3);
  requests.insert(requests.end(), {{1, 0}, {100, 0}, {0, 0}});
  const RequestAlphas alphas = request_alphas(requests);
  EXPECT_LT(alphas.each[41], 0.5 * alphas.each[40]);
  EXPECT_DOUBLE_EQ(alphas.each[42], alphas.all) << "nothing of it was tested";
}

TEST(RequestAlphas, AreNeverZeroBesideOthers) {
  for (const double alpha : request_alphas(halves(5, 10, 10, 0)).each) EXPECT_GT(alpha, 0.04);
}

TEST(RequestAlphas, OfNothingAcceptedOrAllAccepted) {
  EXPECT_EQ(request_alphas({}).all, 0);
  const std::vector<TestedTokens> untested(2), none{{5, 0}, {3, 0}}, all{{5, 5}, {3, 3}};
  for (const auto& requests : {untested, none}) {
    EXPECT_EQ(request_alphas(requests).all, 0);
    EXPECT_EQ(request_alphas(requests).each, (std::vector<double>{0, 0}));
  }
  EXPECT_EQ(request_alphas(all).each, (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace slip
