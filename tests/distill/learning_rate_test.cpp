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

TEST(AgreementFactor, IsWholeForNewTopicsAndSmallForTrainedDrafts) {
  for (const double agreement : {0.0, 0.3, 0.4}) EXPECT_DOUBLE_EQ(agreement_factor(agreement), 1);
  double before = 1;
  for (const double agreement : {0.45, 0.5, 0.55, 0.6}) {
    EXPECT_LT(agreement_factor(agreement), before);
    before = agreement_factor(agreement);
  }
  for (const double agreement : {0.7, 0.9, 1.0}) {
    EXPECT_DOUBLE_EQ(agreement_factor(agreement), 0.1) << "of Muon's .03, at which a draft of α = .66 does not lose";
  }
}

}  // namespace
}  // namespace slip
