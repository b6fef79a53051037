// SPDX-License-Identifier: Apache-2.0
#include "cli/service/recorder.h"

#include <gtest/gtest.h>
#include <string>

#include "common/clock.h"
#include "common/log.h"
#include "ledger/database.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/failing_allocations.h"

namespace slip::cli {
namespace {

StepFigures step(std::int32_t committed) {
  StepFigures figures;
  figures.committed = committed;
  figures.step_us = 2000;
  figures.n_decoding = committed;
  figures.n_waiting = 1;
  return figures;
}

TEST(LoadBucket, AddsUpTenSeconds) {
  LoadBucket bucket;
  EngineLoadRow done;
  EXPECT_FALSE(bucket.close(done));
  EXPECT_FALSE(bucket.add(step(1), 20'000'000, done));
  EXPECT_FALSE(bucket.add(step(3), 29'999'999, done));
  ASSERT_TRUE(bucket.add(step(5), 30'000'000, done));
  EXPECT_EQ(done.bucket_us, 20'000'000);
  EXPECT_EQ(done.steps, 2);
  EXPECT_EQ(done.committed, 4);
  EXPECT_DOUBLE_EQ(done.busy_ms, 4.0);
  EXPECT_EQ(done.max_running, 3);
  ASSERT_TRUE(bucket.close(done));
  EXPECT_EQ(done.bucket_us, 30'000'000);
  EXPECT_EQ(done.committed, 5);
}

// A clock that was years ahead used to keep its bucket open until that time came.
TEST(LoadBucket, AClockSteppingBackBeginsABucketOfThatTime) {
  LoadBucket bucket;
  EngineLoadRow done;
  bucket.add(step(1), 50'000'000, done);
  ASSERT_TRUE(bucket.add(step(2), 10'000'000, done));
  EXPECT_EQ(done.bucket_us, 50'000'000);
  EXPECT_EQ(done.steps, 1);
  ASSERT_TRUE(bucket.add(step(1), 20'000'000, done));
  EXPECT_EQ(done.bucket_us, 10'000'000);
  EXPECT_EQ(done.committed, 2);
}

TEST(RequestRow, CarriesNamesAndTimes) {
  RequestSummary summary;
  summary.id = {255};
  summary.route.topic = {1};
  summary.route.source = TopicSource::kInferred;
  summary.reason = StopReason::kLength;
  summary.rule = AcceptanceRule::kCoupled;
  summary.sampling.temperature = 0.5F;
  summary.figures.output_tokens = 11;
  summary.figures.submitted_us = 1000;
  summary.figures.first_token_us = 6000;
  summary.figures.finished_us = 26'000;
  summary.figures.tested_at.resize(2);
  summary.figures.tested_at[0][0][0] = {.tested = 4, .accepted = 3};
  summary.figures.tested_at[1][1][2] = {.tested = 3, .accepted = 1};
  summary.figures.accepted_siblings = 2;
  summary.figures.cached_tokens = 32;
  summary.slo = {.tpot_us = 2'500, .ttft_us = 0, .e2e_us = 7'500};
  summary.slo_tier = "soon";
  const RecordNames names{{"unknown", "sql"}, {"unknown", "sql"}};
  RequestRow row = request_row(summary, names, 77);
  EXPECT_EQ(row.topic, "sql");
  EXPECT_EQ(row.draft, "sql");
  EXPECT_EQ(row.topic_source, "inferred");
  EXPECT_EQ(row.rule, "coupled");
  EXPECT_EQ(row.http_id, "00000000000000ff") << "made elsewhere than over HTTP";
  EXPECT_EQ(row.finished_us, 77);
  EXPECT_DOUBLE_EQ(row.ttft_ms, 5.0);
  EXPECT_DOUBLE_EQ(row.tpot_ms, 2.0);
  EXPECT_DOUBLE_EQ(row.total_ms, 25.0);
  EXPECT_EQ(row.accepted_siblings, 2);
  EXPECT_EQ(row.cached_tokens, 32);
  EXPECT_DOUBLE_EQ(row.slo_tpot_ms, 2.5);
  EXPECT_DOUBLE_EQ(row.slo_ttft_ms, 0);
  EXPECT_DOUBLE_EQ(row.slo_e2e_ms, 7.5);
  EXPECT_EQ(row.slo_tier, "soon");
  ASSERT_EQ(row.tested.size(), 2U);
  EXPECT_EQ(row.tested[0].proposer, "draft");
  EXPECT_EQ(row.tested[0].reached, 4);
  EXPECT_EQ(row.tested[1].position, 1);
  EXPECT_EQ(row.tested[1].proposer, "prompt_lookup");
  EXPECT_EQ(row.tested[1].rank, 2);
  EXPECT_EQ(row.tested[1].accepted, 1);
  summary.name = "order-66";
  summary.sampling.temperature = 0;
  row = request_row(summary, {{"unknown", "sql"}, {}}, 77);
  EXPECT_EQ(row.http_id, "order-66");
  EXPECT_EQ(row.rule, "greedy");
  EXPECT_EQ(row.draft, "");
}

// The learner's reports reach the ledger a minute at a time, and /metrics at once.
TEST(Recorder, LearningReachesLedgerAndMetrics) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "ledger.db";
  Metrics metrics;
  {
    Ledger ledger(LedgerOptions{.file = file});
    Recorder recorder({{"unknown", "sql"}, {"unknown", "sql"}}, ledger, metrics);
    LearningFigures figures;
    figures.topics.resize(1);
    figures.topics[0].topic = figures.topics[0].draft = "sql";
    const std::int64_t began = wall_us() - 90'000'000;  // older rows than keep_days would leave the ledger again
    for (int second = 0; second <= 90; ++second) {
      figures.at_us = began + second * 1'000'000;
      figures.running_s = second;
      figures.topics[0].optimizer_steps = 2 * static_cast<std::uint64_t>(second);
      recorder.on_learning(figures);
    }
    CanaryDecision decision;
    decision.topic = decision.draft = "sql";
    decision.kind = "refuse";
    decision.verdict.reason = "below margin: gain +0.001";
    recorder.on_decision(decision);
    recorder.finish();
    ledger.flush();
    Database database(file, Database::Mode::kReadOnly);
    EXPECT_EQ(database.integer("SELECT COUNT(*) FROM learning"), 2);
    EXPECT_EQ(database.integer("SELECT SUM(optimizer_steps) FROM learning"), 180);
    EXPECT_EQ(database.integer("SELECT optimizer_steps FROM learning ORDER BY id LIMIT 1"), 120);
  }
  const std::string text = metrics.text();
  EXPECT_NE(text.find("slipstream:learning_optimizer_steps_total{topic=\"sql\"} 180\n"), std::string::npos);
  EXPECT_NE(text.find("learning_candidates_total{outcome=\"refuse\",reason=\"not_better\",topic=\"sql\"} 1\n"),
            std::string::npos);
}

TEST(VersionRow, NamesTheDraftOfTheParent) {
  DraftMeta meta;
  meta.draft = "sql";
  meta.version = 5;
  meta.parent = 1;
  meta.parent_draft = kBaseDraft;
  EXPECT_EQ(version_row(meta).parent_draft, "base");
}

// Listeners are noexcept: std::bad_alloc in one, or on the ledger's thread, ended the process. What there is no memory
// for is lost; the next request is recorded.
TEST(RecorderExhaustion, EachAllocationOfRecorderAndLedgerMayFail) {
  set_log_level(LogLevel::kOff);
  const ::slip::testing::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "ledger.db";
  RequestSummary summary;
  summary.name = "a name that is longer than a string's own buffer";
  summary.figures.tested_at.resize(3);
  for (auto& at : summary.figures.tested_at) at[0][0] = {.tested = 2, .accepted = 1};
  int n_failed = 0;
  std::uint64_t id = 0, n_dropped = 0;
  {
    Ledger ledger({.file = file});
    Metrics metrics;
    Recorder recorder({{"unknown"}, {"a draft with a long enough name"}}, ledger, metrics);
    n_failed = ::slip::testing::fail_each([&] {
      summary.id = {++id};
      recorder.on_step(step(1));
      recorder.on_finished(summary);
      recorder.on_dropped(1);
      recorder.on_learning({});
      ledger.flush();
    });
    summary.name = "the last";
    recorder.on_finished(summary);
    ledger.flush();
    EXPECT_FALSE(ledger.failing());
    n_dropped = ledger.dropped();
  }
  set_log_level(LogLevel::kInfo);
  EXPECT_GT(n_failed, 10);
  Database database(file, Database::Mode::kReadOnly);
  EXPECT_EQ(database.integer("SELECT COUNT(*) FROM requests WHERE http_id = 'the last'"), 1);
  EXPECT_GT(n_dropped, 0U);
  EXPECT_EQ(static_cast<std::uint64_t>(database.integer("SELECT COUNT(*) FROM requests")) + n_dropped, id + 1)
      << "a lost row is counted";
}

}  // namespace
}  // namespace slip::cli
