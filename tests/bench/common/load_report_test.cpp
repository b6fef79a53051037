// SPDX-License-Identifier: Apache-2.0
#include "bench/common/load_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/simulation/load_figures.h"

namespace slip::bench {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

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

json result_of(bool has_targets) {
  json result = {{"rounds", 3}, {"duration_s", 30.0}, {"loads", json::array()}};
  for (const double rate : {2.0, 4.0}) {
    json load = {{"rate_per_s", rate}};
    for (const char* arm : {"auto", "none"}) {
      json figures = summarize(runs());
      figures["vllm"] = by_vllm_names(figures);
      if (has_targets) figures["goodput_per_s"] = rate / 2;
      load["arms"][arm] = figures;
    }
    result["loads"].push_back(load);
  }
  return result;
}

TEST(LoadReport, DrawsGoodputAndLatencyOfAllArms) {
  for (const bool has_targets : {false, true}) {
    const json result = result_of(has_targets);
    const std::string svg = load_svg(result["loads"], load_drawing(result));
    EXPECT_THAT(svg, HasSubstr("3 rounds of 30 s a load"));
    EXPECT_THAT(svg, HasSubstr(has_targets ? "met the targets" : "Requests answered a second"));
    for (const char* text : {"Time to the first token, ms", "Time between tokens, ms", ">auto<", ">none<"}) {
      EXPECT_THAT(svg, HasSubstr(text));
    }
    const auto count = [&](const std::string& part) {
      std::size_t n = 0;
      for (std::size_t at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++n;
      return n;
    };
    EXPECT_EQ(count(R"(stroke-width="2.4")"), 2U * (1 + 2 + 1)) << "goodput, p50 of two times, and the legend";
    EXPECT_EQ(count(R"(stroke-width="1.4")"), 2U * 2) << "p99 of two times";
  }
}

}  // namespace
}  // namespace slip::bench
