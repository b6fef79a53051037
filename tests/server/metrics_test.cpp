// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <gtest/gtest.h>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/log.h"

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
  summary.figures.accepted_siblings = 1;
  summary.figures.by_proposer = {
      {{.proposed = 7, .accepted = 4, .first_rejections = 2}, {.proposed = 2, .accepted = 2}}};
  summary.figures.accepted_by_rank = {6, 1, 0, 0};
  summary.figures.sized_proposals = {1, 0, 0, 2};
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
  EXPECT_TRUE(has(text, "slipstream:spec_decode_num_accepted_sibling_tokens_total" + labels + " 1"));
  EXPECT_TRUE(has(text, "slipstream:spec_decode_num_emitted_tokens_total" + labels + " 10"));
  EXPECT_TRUE(has(text,
                  "slipstream:spec_decode_num_accepted_tokens_per_pos_total"
                  R"({draft="sql",position="1",topic="sql",version="4"} 2)"));
  EXPECT_TRUE(has(text, R"(slipstream:requests_finished_total{reason="stop_token"} 1)"));
  EXPECT_TRUE(has(text, R"(slipstream:requests_routed_total{source="none",topic="sql"} 1)"));
  EXPECT_TRUE(has(text, "slipstream:time_to_first_token_seconds_sum 0.02"));
  EXPECT_TRUE(has(text, "slipstream:time_per_output_token_seconds_sum 0.01"));
}

// The draft's tokens, guesses and siblings were counted together.
TEST(Metrics, TokensAreCountedByWhatProposedThem) {
  Metrics metrics;
  metrics.on_request(summary(), {"sql", "sql", 4});
  const std::string text = metrics.text(), name = "slipstream:spec_decode_num_";
  const auto labels = [](const std::string& label) {
    return R"({draft="sql",)" + label + R"(,topic="sql",version="4"})";
  };
  const std::string draft = labels(R"(proposer="draft")"), lookup = labels(R"(proposer="prompt_lookup")");
  EXPECT_TRUE(has(text, name + "draft_tokens_per_proposer_total" + draft + " 7")) << text;
  EXPECT_TRUE(has(text, name + "draft_tokens_per_proposer_total" + lookup + " 2"));
  EXPECT_TRUE(has(text, name + "accepted_tokens_per_proposer_total" + draft + " 4"));
  EXPECT_TRUE(has(text, name + "accepted_tokens_per_proposer_total" + lookup + " 2"));
  EXPECT_TRUE(has(text, name + "accepted_tokens_per_rank_total" + labels(R"(rank="0")") + " 6"));
  EXPECT_TRUE(has(text, name + "accepted_tokens_per_rank_total" + labels(R"(rank="1")") + " 1"));
  EXPECT_TRUE(has(text, "slipstream:spec_decode_tree_nodes_count 3"));
  EXPECT_TRUE(has(text, "slipstream:spec_decode_tree_nodes_sum 9"));
  EXPECT_TRUE(has(text, R"(slipstream:spec_decode_tree_nodes_bucket{le="3"} 1)"));
  EXPECT_TRUE(has(text, R"(slipstream:spec_decode_tree_nodes_bucket{le="4"} 3)"));
}

// Ten tokens in 90 ms after the first one.
TEST(Metrics, CountsWhoGotTheSpeedTheyAskedFor) {
  Metrics metrics;
  RequestSummary asked = summary();
  metrics.on_request(asked, {"sql", "sql", 4});  // asked for none
  asked.slo.tpot_us = 10'000;
  for (int i = 0; i < 3; ++i) metrics.on_request(asked, {"sql", "sql", 4});
  asked.slo_tier = "fast";
  metrics.on_request(asked, {"sql", "sql", 4});
  asked.slo.ttft_us = 19'000;
  metrics.on_request(asked, {"sql", "sql", 4});
  asked.reason = StopReason::kCancelled;
  metrics.on_request(asked, {"sql", "sql", 4});
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text, R"(slipstream:slo_requests_total{met="true",tier=""} 3)")) << text;
  EXPECT_TRUE(has(text, R"(slipstream:slo_requests_total{met="true",tier="fast"} 1)"));
  EXPECT_TRUE(has(text, R"(slipstream:slo_requests_total{met="false",tier="fast"} 1)"));
  EXPECT_TRUE(has(text, R"(slipstream:slo_goodput_tokens_total{tier=""} 30)"));
  EXPECT_TRUE(has(text, R"(slipstream:slo_goodput_tokens_total{tier="fast"} 10)"));
  EXPECT_TRUE(has(text, R"(slipstream:slo_violation_ratio_sum{tier=""} 3)")) << "10 ms a token of 10 ms";
  EXPECT_TRUE(has(text, R"(slipstream:slo_violation_ratio_bucket{tier="fast",le="1"} 1)"));
  EXPECT_TRUE(has(text, R"(slipstream:slo_violation_ratio_bucket{tier="fast",le="1.1"} 2)")) << "20 ms of 19 ms";
}

TEST(Metrics, StepsAddUp) {
  Metrics metrics;
  StepFigures figures;
  figures.step_us = 2'000'000;
  figures.plan_us = 250'000;
  figures.draft_us = 500'000;
  figures.verify_us = 1'000'000;
  figures.swap_us = 3000;
  metrics.on_step(figures);
  metrics.on_step(figures);
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text, "slipstream:engine_busy_seconds_total 4"));
  EXPECT_TRUE(has(text, "slipstream:plan_seconds_total 0.5"));
  EXPECT_TRUE(has(text, "slipstream:draft_seconds_total 1"));
  EXPECT_TRUE(has(text, "slipstream:verify_seconds_total 2"));
  EXPECT_TRUE(has(text, "slipstream:swap_stall_seconds_count 2"));
}

// Bug: two I/O threads counted and then set the gauge, and where the older count was set last it stayed.
TEST(Metrics, ConnectionsAreCountedByAnyThread) {
  Metrics metrics;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      metrics.on_connection_opened();
      for (int n = 0; n < 20'000; ++n) {
        metrics.on_connection_opened();
        metrics.on_connection_closed();
      }
    });
  }
  threads.clear();  // joins them
  EXPECT_TRUE(has(metrics.text(), "slipstream:connections 2"));
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

TEST(Metrics, LinesThatTheLogLostAreCounted) {
  Metrics metrics;
  const auto lost = [&] {
    const std::string text = metrics.text(), name = R"(slipstream:dropped_total{what="log_lines"} )";
    return std::stod(text.substr(text.find(name) + name.size()));
  };
  const double before = lost();
  set_log({.file = "/dev/full"});
  for (int i = 0; i < 3; ++i) log_info("one");
  set_log({});
  EXPECT_EQ(lost() - before, 3);
}

TEST(Metrics, GaugesAreReadAtScrape) {
  Metrics metrics;
  metrics.set_gauges(
      [] { return Metrics::Gauges{.running = 3, .waiting = 2, .free_pages = 480, .ledger_rows_dropped = 7}; });
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text, "slipstream:num_requests_running 3"));
  EXPECT_TRUE(has(text, "slipstream:num_requests_waiting 2"));
  EXPECT_TRUE(has(text, "slipstream:cache_free_pages 480"));
  EXPECT_TRUE(has(metrics.text(), R"(slipstream:dropped_total{what="ledger_rows"} 7)"));
  EXPECT_TRUE(has(text, R"(slipstream:degraded{reason="disk_low"} 0)"));
  metrics.set_gauges([] { return Metrics::Gauges{.disk_low = true, .learning = false}; });
  EXPECT_TRUE(has(metrics.text(), R"(slipstream:degraded{reason="disk_low"} 1)"));
  EXPECT_TRUE(has(metrics.text(), "slipstream:learning 0"));
  metrics.set_gauges([] { return Metrics::Gauges{.data_directory_gone = true, .learning_fails = true}; });
  EXPECT_TRUE(has(metrics.text(), R"(slipstream:degraded{reason="data_directory"} 1)"));
  EXPECT_TRUE(has(metrics.text(), R"(slipstream:degraded{reason="learning"} 1)"));
  EXPECT_TRUE(has(metrics.text(), R"(slipstream:degraded{reason="disk_low"} 0)"));
}

// The engine's thread took the mutex that /metrics and the idle learner held, and waited for a thread that got no
// processor time. Here a scrape holds that mutex until the engine's calls have returned.
TEST(Metrics, TheEngineAndTheLearnerNeverWaitForAScrape) {
  Metrics metrics;
  std::promise<void> scraping, recorded;
  metrics.set_gauges([&, once = false]() mutable {
    if (!std::exchange(once, true)) {
      scraping.set_value();
      recorded.get_future().wait();
    }
    return Metrics::Gauges{};
  });
  std::thread scraper([&] { metrics.text(); });
  scraping.get_future().wait();
  auto recording = std::async(std::launch::async, [&] {
    StepFigures figures;
    figures.swap_us = 3000;
    metrics.on_step(figures);
    metrics.on_request(summary(), {"sql", "sql", 4});
    metrics.on_train_steps("sql", 5);
    metrics.on_decision("sql", "publish", "better");
    metrics.on_dropped("observations", 2);
    metrics.on_learning(LearningFigures{});
    metrics.on_http("/v1/completions", 200);
  });
  EXPECT_EQ(recording.wait_for(std::chrono::seconds(20)), std::future_status::ready) << "waits for the scrape";
  recorded.set_value();
  scraper.join();
  recording.get();
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text, "slipstream:swap_stall_seconds_count 1"));
  EXPECT_TRUE(has(text, R"(slipstream:requests_finished_total{reason="stop_token"} 1)"));
  EXPECT_TRUE(has(text, R"(slipstream:train_steps_total{draft="sql"} 5)"));
  EXPECT_TRUE(has(text, R"(slipstream:publish_total{outcome="accepted"} 1)"));
  EXPECT_TRUE(has(text, R"(slipstream:dropped_total{what="observations"} 2)"));
}

TEST(Metrics, WithoutAScrapeHttpAnswersEmptyTheInbox) {
  Metrics metrics;
  constexpr int kRequests = 10'000;  // more than the inbox holds
  for (int i = 0; i < kRequests; ++i) {
    metrics.on_request(summary(), {"sql", "sql", 4});
    metrics.on_http("/v1/completions", 200);
  }
  EXPECT_EQ(metrics.acceptance("sql", 4).requests, std::uint64_t{kRequests});
  EXPECT_TRUE(has(metrics.text(), R"(slipstream:dropped_total{what="figures"} 0)"));
}

TEST(Metrics, NegativeAFullInboxLosesFiguresAndCountsThem) {
  Metrics metrics;
  for (int i = 0; i < 10'000; ++i) metrics.on_request(summary(), {"sql", "sql", 4});
  const std::uint64_t kept = metrics.acceptance("sql", 4).requests;
  EXPECT_LT(kept, 10'000U);
  EXPECT_TRUE(has(metrics.text(), R"(slipstream:dropped_total{what="figures"} )" + std::to_string(10'000 - kept)));
}

TEST(Metrics, CandidatesHaveOutcomesAndBoundedReasons) {
  Metrics metrics;
  for (const char* gain : {"+.001", "+.002"}) {
    metrics.on_decision("sql", "refuse", std::string("below margin: gain ") + gain);
  }
  metrics.on_decision("sql", "rollback", "worse than its predecessor: gain -.04");
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text, R"(slipstream:learning_candidates_total{outcome="refuse",reason="not_better",topic="sql"} 2)"));
  EXPECT_TRUE(has(text, R"(slipstream:learning_candidates_total{outcome="rollback",reason="worse",topic="sql"} 1)"));
  EXPECT_TRUE(has(text, R"(slipstream:publish_total{outcome="rejected"} 2)"));
}

TEST(Metrics, TheLatestLearningFiguresAreShown) {
  Metrics metrics;
  EXPECT_EQ(metrics.text().find("slipstream:learning_optimizer_steps_total"), std::string::npos) << "never reported";
  LearningFigures figures;
  figures.topics.resize(1);
  figures.topics[0].topic = "sql";
  for (const std::uint64_t steps : {5, 9}) {
    figures.topics[0].optimizer_steps = steps;
    metrics.on_learning(figures);
  }
  for (int scrape = 0; scrape < 2; ++scrape) {
    EXPECT_TRUE(has(metrics.text(), R"(slipstream:learning_optimizer_steps_total{topic="sql"} 9)"));
  }
}

TEST(Metrics, EveryPartOfMemoryIsInASum) {
  Metrics metrics;
  metrics.set_gauges([] { return Metrics::Gauges{.memory = {{"target_weights", 1000}, {"target_cache", 500}}}; });
  LearningFigures figures;
  figures.trainer_bytes = 300;
  metrics.on_learning(figures);
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text, R"(slipstream:memory_bytes{part="target_weights"} 1000)"));
  EXPECT_TRUE(has(text, R"(slipstream:memory_bytes{part="trainers"} 300)"));
  const auto value = [&text](const std::string& series) {
    return std::stod(text.substr(text.find("\n" + series + " ") + series.size() + 2));
  };
  const double resident = value("slipstream:resident_memory_bytes");
  EXPECT_GT(resident, 1 << 20);
  EXPECT_NEAR(value(R"(slipstream:memory_bytes{part="other"})"), resident - 1800, resident * 1e-4);
}

}  // namespace
}  // namespace slip
