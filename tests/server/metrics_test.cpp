// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

RequestSummary summary() {
  RequestSummary summary;
  summary.reason = StopReason::kEndToken;
  summary.figures.output_tokens = 10;
  summary.figures.prompt_tokens = 3;
  summary.figures.steps = 4;
  summary.figures.proposed = 9;
  summary.figures.accepted = 6;
  summary.figures.first_rejections = 2;
  summary.figures.accepted_at = {3, 2, 1};
  summary.figures.reached_at = {4, 3, 2};
  summary.figures.submitted_us = 1'000'000;
  summary.figures.first_token_us = 1'020'000;
  summary.figures.finished_us = 1'110'000;
  return summary;
}

bool has(const std::string& text, const std::string& line) {
  return text.find(line + "\n") != std::string::npos;
}

TEST(Metrics, UsesTheNamesOthersUse) {
  Metrics metrics;
  metrics.on_request(summary(), {"sql", "sql", 4});
  const std::string text = metrics.text();
  const std::string labels = R"({draft="sql",topic="sql",version="4"})";
  EXPECT_TRUE(has(text, "slipstream:spec_decode_num_drafts_total" + labels + " 4")) << text;
  EXPECT_TRUE(has(text, "slipstream:spec_decode_num_draft_tokens_total" + labels + " 9"));
  EXPECT_TRUE(has(text, "slipstream:spec_decode_num_accepted_tokens_total" + labels + " 6"));
  EXPECT_TRUE(has(text, "slipstream:spec_decode_num_emitted_tokens_total" + labels + " 10"));
  EXPECT_TRUE(has(text,
                  "slipstream:spec_decode_num_accepted_tokens_per_pos_total"
                  R"({draft="sql",position="1",topic="sql",version="4"} 2)"));
  EXPECT_TRUE(has(text, R"(slipstream:requests_finished_total{reason="stop_token"} 1)"));
  EXPECT_TRUE(has(text, R"(slipstream:requests_routed_total{source="none",topic="sql"} 1)"));
  EXPECT_TRUE(has(text, "slipstream:time_to_first_token_seconds_sum 0.02"));
  EXPECT_TRUE(has(text, "slipstream:time_per_output_token_seconds_sum 0.01"));
}

TEST(Metrics, StepsAddUp) {
  Metrics metrics;
  StepFigures figures;
  figures.step_us = 2'000'000;
  figures.draft_us = 500'000;
  figures.verify_us = 1'000'000;
  figures.swap_us = 3000;
  metrics.on_step(figures);
  metrics.on_step(figures);
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text, "slipstream:engine_busy_seconds_total 4"));
  EXPECT_TRUE(has(text, "slipstream:draft_seconds_total 1"));
  EXPECT_TRUE(has(text, "slipstream:verify_seconds_total 2"));
  EXPECT_TRUE(has(text, "slipstream:swap_stall_seconds_count 2"));
}

TEST(Metrics, SeriesAreBounded) {
  Metrics metrics;
  for (std::uint64_t version = 1; version <= 500; ++version) metrics.on_request(summary(), {"sql", "sql", version});
  const std::string text = metrics.text();
  std::size_t series = 0;
  for (std::size_t at = 0; (at = text.find("spec_decode_num_drafts_total{", at)) != std::string::npos; ++at) ++series;
  EXPECT_GE(series, 8U);
  EXPECT_LE(series, 64U);
  EXPECT_NE(text.find("version=\"500\""), std::string::npos);
  EXPECT_EQ(text.find("version=\"1\""), std::string::npos);
}

TEST(Metrics, PlainDecodingHasNoDraftSeries) {
  Metrics metrics;
  metrics.on_request(summary(), {"sql", "", 0});
  EXPECT_EQ(metrics.text().find("spec_decode_num_drafts_total{"), std::string::npos);
}

TEST(Metrics, AcceptanceIsKeptByDraftAndVersion) {
  Metrics metrics;
  metrics.on_request(summary(), {"sql", "sql", 4});
  metrics.on_request(summary(), {"sql", "sql", 4});
  metrics.on_request(summary(), {"sql", "sql", 5});
  const auto count = metrics.acceptance("sql", 4);
  EXPECT_EQ(count.requests, 2U);
  EXPECT_EQ(count.accepted, 12U);
  EXPECT_EQ(count.first_rejections, 4U);
  EXPECT_EQ(metrics.acceptance("sql", 6).requests, 0U);
}

TEST(Metrics, TrainStepsOnlyGrow) {
  Metrics metrics;
  metrics.on_train_steps("sql", 5);
  metrics.on_train_steps("sql", 2);  // rolled back
  metrics.on_train_steps("sql", 4);
  EXPECT_TRUE(has(metrics.text(), R"(slipstream:train_steps_total{draft="sql"} 7)"));
}

TEST(Metrics, GaugesAreReadAtScrape) {
  Metrics metrics;
  metrics.set_gauges([] { return Metrics::Gauges{.running = 3, .waiting = 2, .ledger_rows_dropped = 7}; });
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text, "slipstream:num_requests_running 3"));
  EXPECT_TRUE(has(text, "slipstream:num_requests_waiting 2"));
  EXPECT_TRUE(has(metrics.text(), R"(slipstream:dropped_total{what="ledger_rows"} 7)"));
  EXPECT_TRUE(has(text, R"(slipstream:degraded{reason="disk_low"} 0)"));
  metrics.set_gauges([] { return Metrics::Gauges{.disk_low = true, .learning = false}; });
  EXPECT_TRUE(has(metrics.text(), R"(slipstream:degraded{reason="disk_low"} 1)"));
  EXPECT_TRUE(has(metrics.text(), "slipstream:learning 0"));
}

}  // namespace
}  // namespace slip
