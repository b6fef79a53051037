// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/outlier_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace slip {
namespace {

TEST(OutlierGuard, SeesASpikeAndGetsUsedToAShift) {
  OutlierGuard guard;
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(guard.is_outlier(2.0 + 0.1 * (i % 3)));
  EXPECT_TRUE(guard.is_outlier(9.0));
  EXPECT_FALSE(guard.is_outlier(2.1));
  EXPECT_FALSE(guard.is_outlier(0.5)) << "a small loss is good news";
  int skipped = 0;
  for (int i = 0; i < 64; ++i) skipped += guard.is_outlier(9.0) ? 1 : 0;
  EXPECT_LE(skipped, 8);
}

TEST(OutlierGuard, FindsNoOutlierBeforeItHasSeenEnough) {
  OutlierGuard guard;
  EXPECT_FALSE(guard.is_outlier(1));
  EXPECT_FALSE(guard.is_outlier(1e9));
}

}  // namespace
}  // namespace slip
