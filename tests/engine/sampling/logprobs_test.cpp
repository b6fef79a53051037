// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "engine/sampling/distribution.h"

namespace slip {
namespace {

TEST(LogprobsTest, NormalizerIsLogSumExp) {
  EXPECT_NEAR(log_normalizer(std::vector<float>{0, 0, 0, 0}), std::log(4.0), 1e-15);
  EXPECT_NEAR(log_normalizer(std::vector<float>{1000, 1000}), 1000 + std::log(2.0), 1e-12);  // exp(1000) overflows
  EXPECT_NEAR(log_normalizer(std::vector<float>{-1e30F, -3}), -3, 1e-12);
}

TEST(LogprobsTest, TopIsByFallingProbabilityThenRisingId) {
  const std::vector<float> logits{1, 3, 2, 3, 0};
  std::vector<TokenLogprob> top{{99, 99}};
  EXPECT_EQ(top_logprobs(logits, 3, top), log_normalizer(logits));
  ASSERT_EQ(top.size(), 3U);
  EXPECT_EQ(top[0].id, 1);
  EXPECT_EQ(top[1].id, 3);
  EXPECT_EQ(top[2].id, 2);
  EXPECT_FLOAT_EQ(top[2].logprob, static_cast<float>(2 - log_normalizer(logits)));
}

TEST(LogprobsTest, TopEqualsAFullSort) {
  std::mt19937 bits(4);
  std::uniform_int_distribution<int> coarse(0, 300);  // many equal logits
  std::vector<float> logits(5000);
  for (float& logit : logits) logit = 0.1F * static_cast<float>(coarse(bits));
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  std::vector<TokenLogprob> top;
  top_logprobs(logits, 32, top);
  ASSERT_EQ(top.size(), 32U);
  for (std::size_t i = 0; i < top.size(); ++i) EXPECT_EQ(top[i].id, order[i]);
}

TEST(LogprobsTest, AsksForNoneOrMoreThanThereAre) {
  const std::vector<float> logits{1, 2};
  std::vector<TokenLogprob> top;
  top_logprobs(logits, 0, top);
  EXPECT_TRUE(top.empty());
  top_logprobs(logits, 10, top);
  EXPECT_EQ(top.size(), 2U);
}

}  // namespace
}  // namespace slip
