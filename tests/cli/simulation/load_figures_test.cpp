// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/load_figures.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

using nlohmann::json;

ReplyFigures answered(double ttft_ms, double e2e_ms, std::int64_t tokens) {
  ReplyFigures reply;
  reply.status = 200;
  reply.ttft_ms = ttft_ms;
  reply.e2e_ms = e2e_ms;
  reply.completion_tokens = tokens;
  reply.accepted = 3;
  reply.first_rejections = 1;
  reply.steps = 2;
  return reply;
}

ReplyFigures refused(int status) {
  ReplyFigures reply;
  reply.status = status;
  return reply;
}

TEST(LoadFigures, CountAndSpreadWhatWasAnswered) {
  const json figures =
      summarize({{{answered(10, 100, 10), refused(429), refused(0)}, 2}, {{answered(30, 300, 30)}, 2}});
  EXPECT_EQ(figures["completed"], 2);
  EXPECT_EQ(figures["rejected"], 1);
  EXPECT_EQ(figures["failed"], 1);
  EXPECT_EQ(figures["alpha"], 0.75);
  EXPECT_EQ(figures["accepted_length"], 10);
  EXPECT_EQ(figures["ttft_ms"]["mean"], 20);
  EXPECT_EQ(figures["e2e_ms"]["p50"], 100);
  EXPECT_DOUBLE_EQ(figures["tpot_ms"]["p50"], 270.0 / 29);
  EXPECT_EQ(figures["output_tokens"], 40);
  EXPECT_NEAR(figures["duration_s"].get<double>(), 4, 1e-6);
  EXPECT_NEAR(figures["tokens_per_s"].get<double>(), 10, 1e-6);
  EXPECT_TRUE(figures["itl_ms"]["mean"].is_null()) << "nothing was streamed";
  EXPECT_FALSE(figures.contains("attainment")) << "nothing was asked for";
}

// Regression: gaps between chunks made longer proposals look slower at the 99th percentile.
TEST(LoadFigures, TokensOfOneChunkAreNotApart) {
  ReplyFigures one_by_one = answered(10, 60, 6), by_threes = answered(10, 60, 6);
  one_by_one.gaps_ms = {10, 10, 10, 10, 10};
  by_threes.gaps_ms = {50};
  for (const ReplyFigures& reply : {one_by_one, by_threes}) {
    EXPECT_EQ(summarize({{{reply}, 1}})["itl_ms"]["mean"], 10);
  }
  EXPECT_EQ(summarize({{{by_threes}, 1}})["itl_ms"]["p50"], 0);
}

// The run, all of whose requests asked for `targets`.
json summary_for(LoadFigures run, const SloTargets& targets) {
  for (ReplyFigures& reply : run.replies) reply.slo = targets;
  return summarize({run});
}

TEST(LoadFigures, ATargetIsMetByAnAnswerThatMeetsAllOfIt) {
  // 10 ms a token and 50 ms to the first one: late, in time, slow, refused
  const LoadFigures run{{answered(60, 100, 11), answered(40, 140, 11), answered(40, 200, 11), refused(429)}, 2};
  const json both = summary_for(run, {10'000, 50'000});
  EXPECT_EQ(both["attainment"], 0.25);
  EXPECT_NEAR(both["goodput_per_s"].get<double>(), 0.5, 1e-6);
  EXPECT_NEAR(both["goodput_tokens_per_s"].get<double>(), 5.5, 1e-6);
  EXPECT_EQ(summary_for(run, {10'000, 0})["attainment"], 0.5);
  EXPECT_EQ(summary_for(run, {0, 50'000})["attainment"], 0.5);
  // Bug: the time of a whole answer was not looked at.
  EXPECT_EQ(summary_for(run, {.e2e_us = 150'000})["attainment"], 0.5);
  EXPECT_EQ(summary_for(run, {10'000, 0, 120'000})["attainment"], 0.25);
}

TEST(LoadFigures, EachTargetHasItsOwnShare) {
  LoadFigures run{{answered(40, 140, 11), answered(40, 140, 11), answered(40, 900, 11), answered(40, 900, 11)}, 2};
  run.replies[0].slo = run.replies[2].slo = {.tpot_us = 10'000};
  run.replies[1].slo = {.tpot_us = 100'000};
  const json figures = summarize({run});
  EXPECT_NEAR(figures["attainment"].get<double>(), 2.0 / 3, 1e-9) << "one asked for nothing";
  ASSERT_EQ(figures["attainments"].size(), 2U);
  EXPECT_EQ(figures["attainments"][0],
            (json{{"tpot_ms", 10.0}, {"ttft_ms", 0.0}, {"e2e_ms", 0.0}, {"requests", 2}, {"attainment", 0.5}}));
  EXPECT_EQ(figures["attainments"][1]["attainment"], 1);
}

TEST(LoadFigures, AnEmptyLoadHasNoTimes) {
  const json figures = summarize({});
  EXPECT_EQ(figures["completed"], 0);
  EXPECT_TRUE(figures["e2e_ms"]["p99"].is_null());
  EXPECT_FALSE(figures.contains("attainment"));
}

}  // namespace
}  // namespace slip
