// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/draft_confidence.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

// Var(p) / (α (1 − α)): the part of the variance of being right that p explains.
TEST(DraftConfidence, ExplainsAsMuchAsARealDraftsDoes) {
  for (const double alpha : {.001, .07, .3, .5, .7, .9, .99}) {
    const DraftConfidence confidence(alpha);
    constexpr int kDraws = 20'000;
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double p = confidence.at((i + .5) / kDraws);
      ASSERT_GT(p, 0);
      ASSERT_LE(p, 1);
      sum += p;
      squares += p * p;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, alpha, .001) << alpha;
    EXPECT_NEAR((squares / kDraws - mean * mean) / (alpha * (1 - alpha)), .7 * alpha, .02) << alpha;
  }
}

TEST(DraftConfidence, RisesWithTheQuantileAndIsOneForADraftThatIsAlwaysRight) {
  const DraftConfidence confidence(.4), sure(1);
  for (int i = 1; i < 100; ++i) EXPECT_GE(confidence.at(i / 100.0), confidence.at((i - 1) / 100.0));
  EXPECT_EQ(sure.at(0), 1);
  EXPECT_EQ(sure.at(.999'999), 1);
}

}  // namespace
}  // namespace slip
