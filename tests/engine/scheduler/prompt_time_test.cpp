// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/prompt_time.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

constexpr double kKeep = 0.9;

TEST(PromptTime, IsWhatARowAdds) {
  PromptTimeEstimate estimate(kKeep);
  EXPECT_FALSE(estimate.known());
  EXPECT_EQ(estimate.row_us(), 0);
  estimate.add(100, 10'000, /*decodes=*/true);
  EXPECT_TRUE(estimate.known());
  EXPECT_DOUBLE_EQ(estimate.row_us(), 100);
  for (int i = 0; i < 100; ++i) estimate.add(100, 20'000, /*decodes=*/true);
  EXPECT_NEAR(estimate.row_us(), 200, 0.1) << "it follows a slower machine";
}

// Bug: each step counted alike, so a short prompt's share of the pass that it began stood for the time of a row. Steps
// then read eight rows, and measured nothing better.
TEST(PromptTime, ShortPromptsDoNotMakeRowsLookDear) {
  PromptTimeEstimate estimate(kKeep);
  estimate.add(5, 10'000, /*decodes=*/false);
  EXPECT_FALSE(estimate.known()) << "a pass over five rows takes as long as over one";
  for (int i = 0; i < 10; ++i) {
    estimate.add(256, 25'600, /*decodes=*/true);
    estimate.add(8, 2'000, /*decodes=*/true);  // another tile of rows
  }
  EXPECT_GT(estimate.row_us(), 100);
  EXPECT_LT(estimate.row_us(), 110) << "the mean of both ratios would be 175";
}

// Bug: steps that were faster than predicted did not count, so only those with noise upwards did.
TEST(PromptTime, NoiseAroundNothingIsNothing) {
  PromptTimeEstimate estimate(kKeep);
  for (int i = 0; i < 100; ++i) estimate.add(8, i % 2 == 0 ? 1'000 : -1'000, /*decodes=*/true);
  EXPECT_EQ(estimate.row_us(), 0) << "the latest one was below";
  estimate.add(8, 1'000, /*decodes=*/true);
  EXPECT_LT(estimate.row_us(), 10) << "the positive ones alone say 125";
  EXPECT_TRUE(estimate.known());
}

TEST(PromptTime, AStepReadsTheRowsThatFitItsTime) {
  PromptTimeEstimate estimate(kKeep);
  EXPECT_EQ(estimate.rows_within(10'000, 256), 256) << "the time of a row is unknown";
  estimate.add(100, 50'000, /*decodes=*/true);
  EXPECT_EQ(estimate.rows_within(50'200, 256), 100);
  EXPECT_EQ(estimate.rows_within(1e12, 256), 256);
  EXPECT_EQ(estimate.rows_within(100, 256), kLeastPromptRows) << "prompts end";
  EXPECT_EQ(estimate.rows_within(100, 4), 4);
}

// Rows at the end of a prompt of 4,000 tokens take 1.4 times the mean: each sees more context than the ones before it.
TEST(PromptTime, AnEstimateThatForgetsSoonFollowsALongPrompt) {
  PromptTimeEstimate estimate(0.5);
  for (int i = 0; i < 20; ++i) estimate.add(200, 40'000 + 1'000 * i, /*decodes=*/true);
  EXPECT_NEAR(estimate.row_us(), 290, 5) << "the latest rows took 295";
}

// An interrupted step of a few rows leaves eight rows to the next ones, which show nothing by a large number of rows.
TEST(PromptTime, AnInterruptedStepIsForgotten) {
  PromptTimeEstimate estimate(0.5);
  for (int i = 0; i < 20; ++i) estimate.add(256, 256 * 400, /*decodes=*/true);
  for (int i = 0; i < 12; ++i) estimate.add(8, 8 * 400, /*decodes=*/true);
  estimate.add(16, 150'000, /*decodes=*/true);
  EXPECT_LT(estimate.rows_within(100'000, 256), 16);
  for (int i = 0; i < 8; ++i) estimate.add(8, 8 * 400, /*decodes=*/true);
  EXPECT_GT(estimate.rows_within(100'000, 256), 128);
}

}  // namespace
}  // namespace slip
