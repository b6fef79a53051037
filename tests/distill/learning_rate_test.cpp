// SPDX-License-Identifier: Apache-2.0
#include "distill/learning_rate.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

TEST(LearningRate, RisesThenStaysOrFallsToATenth) {
  TrainerOptions options;
  options.warmup_steps = 10;
  EXPECT_DOUBLE_EQ(learning_rate_factor(options, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_factor(options, 9), 1);
  EXPECT_DOUBLE_EQ(learning_rate_factor(options, 100000), 1);
  options.total_steps = 110;
  EXPECT_DOUBLE_EQ(learning_rate_factor(options, 10), 1);
  EXPECT_NEAR(learning_rate_factor(options, 60), 0.55, 1e-9);
  EXPECT_NEAR(learning_rate_factor(options, 110), 0.1, 1e-9);
  EXPECT_NEAR(learning_rate_factor(options, 500), 0.1, 1e-9);
}

}  // namespace
}  // namespace slip
