// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/rank_profile.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

TEST(RankProfile, LearnsEachRankByItself) {
  RankProfile profile;
  EXPECT_EQ(profile.rates(1), kPriorRankRates);
  for (int i = 0; i < 200; ++i) {
    profile.add(1, 0, i % 4 != 0);
    profile.add(1, 1, i % 5 == 0);
  }
  EXPECT_NEAR(profile.rates(1)[0], 0.75, 0.02);
  EXPECT_NEAR(profile.rates(1)[1], 0.2, 0.02);
  EXPECT_EQ(profile.rates(1)[2], kPriorRankRates[2]);
}

// Regression: a second choice that a static tree left out was never measured again while the draft stayed the same.
TEST(RankProfile, AChoiceThatIsNotProposedReturnsToItsPrior) {
  RankProfile profile;
  for (int i = 0; i < 20; ++i) profile.add(1, 1, false);
  EXPECT_LT(profile.rates(1)[1], 0.06);
  for (int i = 0; i < 21 * 256; ++i) profile.add(1, 0, false);
  EXPECT_EQ(profile.rates(1)[1], kPriorRankRates[1]);
}

TEST(RankProfile, ANewVersionIsNearlyUnknown) {
  RankProfile profile;
  for (int i = 0; i < 200; ++i) profile.add(1, 0, false);
  EXPECT_LT(profile.rates(1)[0], 0.02);
  EXPECT_GT(profile.rates(2)[0], 0.2);
  profile.add(2, 0, true);
  EXPECT_GT(profile.rates(2)[0], 0.3) << "what the old version did hardly counts";
}

}  // namespace
}  // namespace slip
