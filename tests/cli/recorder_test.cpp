// SPDX-License-Identifier: Apache-2.0
#include "cli/recorder.h"

#include <gtest/gtest.h>

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
  summary.figures.accepted_at = {3, 1};
  summary.figures.reached_at = {4, 3};
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
  EXPECT_EQ(row.accepted_at, (std::vector<int>{3, 1}));
  summary.name = "order-66";
  summary.sampling.temperature = 0;
  row = request_row(summary, {{"unknown", "sql"}, {}}, 77);
  EXPECT_EQ(row.http_id, "order-66");
  EXPECT_EQ(row.rule, "greedy");
  EXPECT_EQ(row.draft, "");
}

}  // namespace
}  // namespace slip::cli
