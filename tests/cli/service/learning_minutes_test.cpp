// SPDX-License-Identifier: Apache-2.0
#include "cli/service/learning_minutes.h"

#include <gtest/gtest.h>

namespace slip::cli {
namespace {

LearningFigures figures(double running_s, std::uint64_t sql_steps, std::uint64_t math_requests = 0) {
  LearningFigures all;
  all.at_us = 1'000'000'000 + static_cast<std::int64_t>(running_s * 1e6);
  all.running_s = running_s;
  all.share_of_service = 0.08;
  TopicLearning sql, math;
  sql.topic = sql.draft = "sql";
  sql.live_version = 3;
  sql.optimizer_steps = sql_steps;
  sql.training_s = 0.1 * static_cast<double>(sql_steps);
  sql.realised_gain = 0.001 * static_cast<double>(sql_steps);
  sql.loss = 1.5;
  sql.state = "training";
  math.topic = "math";
  math.requests = math_requests;
  all.topics = {sql, math};
  return all;
}

TEST(LearningMinutes, ARowHoldsWhatItsMinuteBrought) {
  LearningMinutes minutes(2);
  for (int second = 0; second < 60; ++second) EXPECT_FALSE(minutes.add(figures(second, 2 * second)));
  const auto first = minutes.add(figures(60, 120));
  ASSERT_TRUE(first);
  ASSERT_EQ(first->rows.size(), 1U) << "nothing happened to math";
  const LearningRow& row = first->rows[0];
  EXPECT_EQ(row.topic, "sql");
  EXPECT_EQ(row.version, 3U);
  EXPECT_EQ(row.at_us, 1'060'000'000);
  EXPECT_EQ(row.optimizer_steps, 120U);
  EXPECT_EQ(row.cores, 2);
  EXPECT_DOUBLE_EQ(row.covered_s, 60);
  EXPECT_DOUBLE_EQ(row.training_s, 12);
  EXPECT_DOUBLE_EQ(row.share_of_service, 0.08);
  EXPECT_EQ(row.state, "training");
  EXPECT_NE(first->line.find("sql 0 requests, 120 steps in 12.0 s"), std::string::npos) << first->line;
  const auto second = minutes.add(figures(121, 150, 4));
  ASSERT_TRUE(second);
  ASSERT_EQ(second->rows.size(), 2U);
  EXPECT_EQ(second->rows[0].optimizer_steps, 30U);
  EXPECT_DOUBLE_EQ(second->rows[0].covered_s, 61);
  EXPECT_NEAR(second->rows[0].realised_gain, 0.03, 1e-9);
  EXPECT_EQ(second->rows[1].requests, 4U);
}

TEST(LearningMinutes, AnIdleMinuteHasNeitherRowNorLine) {
  LearningMinutes minutes(2);
  ASSERT_TRUE(minutes.add(figures(60, 120)));
  const auto idle = minutes.add(figures(120, 120));
  ASSERT_TRUE(idle);
  EXPECT_TRUE(idle->rows.empty());
  EXPECT_EQ(idle->line, "");
}

TEST(LearningMinutes, ClosingGivesTheRestOnce) {
  LearningMinutes minutes(2);
  EXPECT_TRUE(minutes.close().rows.empty()) << "the learner never reported";
  minutes.add(figures(60, 120));
  minutes.add(figures(75, 130));
  const auto rest = minutes.close();
  ASSERT_EQ(rest.rows.size(), 1U);
  EXPECT_EQ(rest.rows[0].optimizer_steps, 10U);
  EXPECT_DOUBLE_EQ(rest.rows[0].covered_s, 15);
  EXPECT_TRUE(minutes.close().rows.empty());
}

TEST(LearningMinutes, ACountThatFallsIsNoProgress) {
  LearningMinutes minutes(2);
  minutes.add(figures(60, 120, 4));
  const auto after = minutes.add(figures(120, 20, 6));
  ASSERT_TRUE(after);
  ASSERT_EQ(after->rows.size(), 1U);
  EXPECT_EQ(after->rows[0].topic, "math");
}

}  // namespace
}  // namespace slip::cli
