// SPDX-License-Identifier: Apache-2.0
#include "bench/common/mean_ratio.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace slip::bench {
namespace {

LoadFigures run_of(const std::vector<double>& times_ms) {
  LoadFigures run;
  for (const double ms : times_ms) {
    run.replies.emplace_back();
    run.replies.back().status = 200;
    run.replies.back().e2e_ms = ms;
  }
  return run;
}

double width(const nlohmann::json& found) {
  return found["high"].get<double>() - found["low"].get<double>();
}

// 60 requests of 100 ms in the other arm, 120 ms or 80 ms in this one, `in_a_row` alike after each other.
nlohmann::json in_rows(std::size_t in_a_row) {
  std::vector<double> times_ms;
  for (std::size_t i = 0; i < 60; ++i) times_ms.push_back(i / in_a_row % 2 == 0 ? 120 : 80);
  return mean_ratio({run_of(times_ms)}, {run_of(std::vector<double>(60, 100))});
}

// Bug: the interval took requests as independent, so it did not see that those of a queue are slow together.
TEST(MeanRatio, RequestsThatAreSlowTogetherWidenTheInterval) {
  const nlohmann::json alone = in_rows(1), together = in_rows(10);
  EXPECT_DOUBLE_EQ(alone["ratio"], 1);
  EXPECT_DOUBLE_EQ(together["ratio"], 1);
  EXPECT_EQ(together["blocks"], 6);
  // Six blocks of mean 1.2 or .8: their standard deviation over √6 is .0894, and t of five degrees 2.57.
  EXPECT_NEAR(width(together), 2 * 2.57 * 0.0894, 0.02);
  EXPECT_NEAR(width(alone), 0, 1e-9);  // each block has as many of both
}

TEST(MeanRatio, CountsOnlyWhatBothAnswered) {
  LoadFigures mine = run_of(std::vector<double>(12, 90)), its = run_of(std::vector<double>(12, 100));
  mine.replies[0] = {};  // failed, after 0 ms
  its.replies[5].status = 429;
  const nlohmann::json found = mean_ratio({mine, mine}, {its, its});
  EXPECT_DOUBLE_EQ(found["ratio"], 0.9);
  EXPECT_NEAR(width(found), 0, 1e-9);
  EXPECT_EQ(found["requests"], 20);
  EXPECT_EQ(found["blocks"], 12);
}

TEST(MeanRatio, IsNullWithFewerThanTwoBlocks) {
  EXPECT_TRUE(mean_ratio({}, {}).is_null());
  EXPECT_TRUE(mean_ratio({run_of({90})}, {run_of({100})}).is_null());
  EXPECT_FALSE(mean_ratio({run_of({90, 80})}, {run_of({100, 100})}).is_null());
}

}  // namespace
}  // namespace slip::bench
