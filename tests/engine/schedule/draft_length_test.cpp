// SPDX-License-Identifier: Apache-2.0
#include "engine/schedule/draft_length.h"

#include <gtest/gtest.h>

#include <cmath>

namespace slip {
namespace {

// Expected tokens of a chain of k, the target's own included (SmartSpec's Ω).
double omega(std::int32_t k, double alpha) {
  double tokens = 0;
  for (std::int32_t depth = 0; depth <= k; ++depth) tokens += std::pow(alpha, depth);
  return tokens;
}

double goodput(const std::vector<DraftOutlook>& outlooks, const std::vector<std::int32_t>& lengths,
               const StepLine& line) {
  double tokens = 0, rows = 0, nodes = 0;
  for (std::size_t i = 0; i < outlooks.size(); ++i) {
    tokens += omega(lengths[i], outlooks[i].alpha);
    rows += 1 + lengths[i];
    nodes += lengths[i];
  }
  return tokens / (line.fixed_us + line.row_us * rows + line.depth_us * nodes / static_cast<double>(outlooks.size()));
}

std::vector<std::int32_t> chosen(const std::vector<DraftOutlook>& outlooks, const StepLine& line,
                                 std::int32_t prompt_rows = 0) {
  std::vector<std::int32_t> lengths;
  choose_draft_lengths(outlooks, prompt_rows, line, lengths);
  return lengths;
}

const StepLine kMemoryBound{10'000, 100, 100}, kComputeBound{9'000, 1'500, 200};

TEST(DraftLength, IsTheBestOfAllLengths) {
  for (const StepLine& line : {kMemoryBound, kComputeBound}) {
    for (int a = 0; a < 10; ++a) {
      for (int b = 0; b < 10; ++b) {
        const std::vector<DraftOutlook> outlooks{{4, a / 10.0}, {4, b / 10.0}};
        const auto lengths = chosen(outlooks, line);
        const double best = goodput(outlooks, lengths, line);
        for (std::int32_t i = 0; i <= 4; ++i) {
          for (std::int32_t j = 0; j <= 4; ++j) EXPECT_GE(best * (1 + 1e-9), goodput(outlooks, {i, j}, line));
        }
      }
    }
  }
}

// The shipped base draft accepts 1 % of sql: every refused token costs time.
TEST(DraftLength, ADraftThatDoesNotPayIsNotUsed) {
  EXPECT_EQ(chosen({{3, 0.01}}, kComputeBound), std::vector<std::int32_t>{0});
  EXPECT_EQ(chosen({{3, 0.01}, {3, 0.8}}, kComputeBound)[0], 0);
  EXPECT_GT(chosen({{3, 0.01}, {3, 0.8}}, kComputeBound)[1], 0);
}

TEST(DraftLength, GrowsWithAcceptanceAndShrinksWithLoadWhereRowsCost) {
  std::int32_t before = 0;
  for (int a = 0; a <= 9; ++a) {
    const std::int32_t length = chosen({{8, a / 10.0}}, kComputeBound)[0];
    EXPECT_GE(length, before);
    before = length;
  }
  EXPECT_GT(before, 3);
  const auto alone = chosen({{8, 0.6}}, kComputeBound)[0];
  const auto crowded = chosen(std::vector<DraftOutlook>(16, {8, 0.6}), kComputeBound)[0];
  EXPECT_LT(crowded, alone);
}

TEST(DraftLength, KeepsToWhatASequenceMayProposeAndProbes) {
  EXPECT_EQ(chosen({{2, 0.95}}, kMemoryBound), std::vector<std::int32_t>{2});
  EXPECT_EQ(chosen({{0, 0.95, true}}, kMemoryBound), std::vector<std::int32_t>{0});
  EXPECT_EQ(chosen({{3, 0.0, true}}, kComputeBound), std::vector<std::int32_t>{1});
  EXPECT_TRUE(chosen({}, kMemoryBound).empty());
}

TEST(StepLineEstimate, FindsTheLineAndFollowsAChange) {
  StepLineEstimate estimate;
  EXPECT_FALSE(estimate.known());
  for (int i = 0; i < 200; ++i) estimate.add(1 + i % 8, 9'000 + 1'500.0 * (1 + i % 8), 1 + i % 3, 200.0 * (1 + i % 3));
  ASSERT_TRUE(estimate.known());
  EXPECT_NEAR(estimate.line().row_us, 1'500, 60);
  EXPECT_NEAR(estimate.line().fixed_us, 9'000, 300);
  EXPECT_NEAR(estimate.line().depth_us, 200, 1);
  for (int i = 0; i < 400; ++i) estimate.add(1 + i % 8, 4'000 + 100.0 * (1 + i % 8), 1, 50);
  EXPECT_NEAR(estimate.line().row_us, 100, 20);
  EXPECT_NEAR(estimate.line().depth_us, 50, 5);
}

// A load that never changes tells nothing about the slope: the prior stands, and nothing is divided by zero.
TEST(StepLineEstimate, OneNumberOfRowsLeavesThePrior) {
  StepLineEstimate estimate;
  for (int i = 0; i < 100; ++i) estimate.add(4, 12'000, 0, 0);
  const StepLine line = estimate.line();
  EXPECT_GT(line.row_us, 0);
  EXPECT_LT(line.row_us, 1'000);
  EXPECT_NEAR(line.fixed_us + 4 * line.row_us, 12'000, 1);
}

TEST(AcceptanceEstimate, FollowsTheTrafficAndTriesANewVersion) {
  AcceptanceEstimate estimate;
  EXPECT_NEAR(estimate.alpha(1), 0.5, 1e-9) << "before anything is known";
  for (int i = 0; i < 200; ++i) estimate.add(1, 0, true);
  EXPECT_LT(estimate.alpha(1), 0.05);
  EXPECT_GT(estimate.alpha(2), 0.25);
  for (int i = 0; i < 60; ++i) estimate.add(2, 2, true);
  EXPECT_NEAR(estimate.alpha(2), 2.0 / 3, 0.03);
}

TEST(AcceptanceEstimate, ProbesNowAndThen) {
  AcceptanceEstimate estimate;
  int probes = 0;
  for (int i = 0; i < 320; ++i) probes += estimate.is_probe() ? 1 : 0;
  EXPECT_EQ(probes, 10);
}

}  // namespace
}  // namespace slip
