// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/learning_rate.h"

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

TEST(LossFactor, IsWholeForNewTopicsAndSmallForTrainedDrafts) {
  const auto kl = [](double loss) { return loss_factor(LossKind::kForwardKl, loss); };
  for (const double loss : {1.3, 3.0, 9.0}) EXPECT_DOUBLE_EQ(kl(loss), 1);
  EXPECT_NEAR(kl(1.0), 0.27, 0.01);
  for (const double loss : {0.8, 0.1, 0.0}) {
    EXPECT_DOUBLE_EQ(kl(loss), 0.1) << "of Muon's .03, at which a draft of α = .66 does not lose";
  }
}

// Of the same drafts on the same batches: 3.1 and 3.0 nats of KL, 1.07 and .85.
TEST(LossFactor, IsAboutTheSameWhateverLossIsMeasured) {
  struct Measured {
    LossKind kind;
    double early_sql, early_math, lang, math;
  };
  for (const Measured& m : {Measured{LossKind::kForwardKl, 3.123, 3.016, 1.067, 0.849},
                            {LossKind::kReverseKl, 3.743, 3.481, 0.803, 0.935},
                            {LossKind::kJsd, 0.390, 0.404, 0.162, 0.138},
                            {LossKind::kTotalVariation, 0.702, 0.723, 0.417, 0.328}}) {
    EXPECT_EQ(loss_factor(m.kind, m.early_sql), 1) << loss_name(m.kind);
    EXPECT_EQ(loss_factor(m.kind, m.early_math), 1) << loss_name(m.kind);
    EXPECT_LT(loss_factor(m.kind, m.lang), 0.6) << loss_name(m.kind);
    EXPECT_LT(loss_factor(m.kind, m.math), 0.3) << loss_name(m.kind);
  }
}

}  // namespace
}  // namespace slip
