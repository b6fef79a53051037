// SPDX-License-Identifier: Apache-2.0
#include "bench/common_load_report.h"

#include <gtest/gtest.h>

#include <vector>

#include "cli/simulation/load_figures.h"

namespace slip::bench {
namespace {

using nlohmann::json;

// Two answers of 200 and 400 ms, one that was refused and one that failed.
std::vector<LoadFigures> runs() {
  LoadFigures run;
  run.elapsed_s = 4;
  for (const double e2e_ms : {200.0, 400.0}) {
    ReplyFigures reply;
    reply.status = 200;
    reply.ttft_ms = e2e_ms / 10;
    reply.e2e_ms = e2e_ms;
    reply.completion_tokens = 10;
    reply.gaps_ms = {20, 40};
    reply.proposed = 8;
    reply.accepted = 3;
    reply.accepted_siblings = 1;
    reply.first_rejections = 2;
    run.replies.push_back(reply);
  }
  for (const int status : {429, 0}) run.replies.push_back({.status = status});
  return {run};
}

// Of the members that speed_bench.py --output writes, those that mean the same here.
TEST(LoadReport, LlamaCppsNamesHaveItsMeaning) {
  const json named = by_llama_cpp_names(summarize(runs()));
  EXPECT_EQ(named["selected_samples"], 4);
  EXPECT_EQ(named["completed_samples"], 2);
  EXPECT_EQ(named["failed_samples"], 2);
  ASSERT_EQ(named["summary"].size(), 1U);
  const json& overall = named["summary"][0];
  EXPECT_EQ(overall["category"], "overall");
  EXPECT_EQ(overall["requests"], 2);
  EXPECT_EQ(overall["failed"], 2);
  EXPECT_DOUBLE_EQ(overall["avg_latency"], 0.3) << "seconds";
  EXPECT_EQ(overall["draft_n"], 16);
  EXPECT_EQ(overall["accepted"], 8) << "siblings too";
  EXPECT_DOUBLE_EQ(overall["accept_rate"], 0.5);
}

TEST(LoadReport, WithoutAnswersAndDraftsTheyAreNull) {
  const json overall = by_llama_cpp_names(summarize({}))["summary"][0];
  EXPECT_TRUE(overall["avg_latency"].is_null());
  EXPECT_TRUE(overall["accept_rate"].is_null());
}

TEST(LoadReport, VllmsNamesHaveItsMeaning) {
  const json named = by_vllm_names(summarize(runs()));
  EXPECT_EQ(named["completed"], 2);
  EXPECT_NEAR(named["request_throughput"].get<double>(), 0.5, 1e-6);
  EXPECT_EQ(named["total_output_tokens"], 20);
  EXPECT_EQ(named["median_ttft_ms"], 20);
  EXPECT_EQ(named["mean_e2el_ms"], 300);
}

}  // namespace
}  // namespace slip::bench
