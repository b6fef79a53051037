// SPDX-License-Identifier: Apache-2.0
#include "ledger/upkeep.h"

#include <gtest/gtest.h>

#include "ledger/row_writer.h"
#include "ledger/schema.h"
#include "tests/ledger/sample_ledger.h"

namespace slip {
namespace {

constexpr std::int64_t kDayUs = 24 * 3600 * kSecondUs;
constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30;

class UpkeepTest : public ::testing::Test {
 protected:
  UpkeepTest() : database_(folder_ / "x.db", Database::Mode::kReadWrite) {
    database_.execute("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF");
    migrate(database_, ledger_migrations());
    refresh_views(database_);
  }
  void record_every_ten_seconds(std::int64_t from_us, int n) {
    RowWriter writer(database_);
    database_.execute("BEGIN");
    for (int i = 0; i < n; ++i) {
      RequestRow row = sample_request("sql", from_us + i * 10 * kSecondUs, 6, 4);
      writer.write(row);
      writer.write(sample_score(row, 0.6, 0.5));
    }
    database_.execute("COMMIT");
  }
  std::int64_t sum() { return database_.integer("SELECT SUM(reached + accepted + first_rejections) FROM acceptance"); }

  TemporaryFolder folder_;
  Database database_;
};

TEST_F(UpkeepTest, BucketsGrowWithAgeAndCountTheSame) {
  const std::int64_t now = 400 * kDayUs;
  record_every_ten_seconds(now - 3600 * kSecondUs, 300);                // an hour ago
  record_every_ten_seconds(now - 2 * kDayUs, 300);                      // two days ago
  record_every_ten_seconds(now - 40 * kDayUs - 3600 * kSecondUs, 300);  // forty days ago
  const std::int64_t before = sum();
  keep_small(database_, {1000 * kDayUs, kPlenty}, now);
  EXPECT_EQ(sum(), before);
  EXPECT_EQ(database_.integer("SELECT COUNT(*) FROM acceptance WHERE bucket_width_us = 10000000"), 300);
  EXPECT_EQ(database_.integer("SELECT COUNT(*) FROM acceptance WHERE bucket_width_us = 600000000"), 5);
  EXPECT_LE(database_.integer("SELECT COUNT(*) FROM acceptance WHERE bucket_width_us = 86400000000"), 2);
  keep_small(database_, {1000 * kDayUs, kPlenty}, now);  // again: nothing left to do
  EXPECT_EQ(sum(), before);
  keep_small(database_, {1000 * kDayUs, kPlenty}, now + 60 * kDayUs);  // and all become days, added to those there
  EXPECT_EQ(sum(), before);
  EXPECT_EQ(database_.integer("SELECT COUNT(*) FROM acceptance WHERE bucket_width_us < 86400000000"), 0);
}

TEST_F(UpkeepTest, WideBucketsTellProposersAndRanksApart) {
  const std::int64_t now = 400 * kDayUs;
  RequestRow row = sample_request("sql", now - 2 * kDayUs, 6, 4);
  row.tested.push_back({.proposer = "prompt_lookup", .reached = 2, .accepted = 1});
  row.tested.push_back({.rank = 1, .reached = 4, .accepted = 3});
  RowWriter writer(database_);
  for (int i = 0; i < 3; ++i) writer.write(row);
  keep_small(database_, {1000 * kDayUs, kPlenty}, now);
  EXPECT_EQ(database_.integer("SELECT COUNT(*) FROM acceptance WHERE bucket_width_us = 600000000"), 3);
  EXPECT_EQ(database_.integer("SELECT accepted FROM acceptance WHERE proposer = 'draft' AND rank = 0"), 18);
  EXPECT_EQ(database_.integer("SELECT accepted FROM acceptance WHERE proposer = 'prompt_lookup'"), 3);
  EXPECT_EQ(database_.integer("SELECT accepted FROM acceptance WHERE rank = 1"), 9);
  EXPECT_EQ(database_.integer("SELECT first_rejections FROM acceptance WHERE rank = 1"), 0);
}

TEST_F(UpkeepTest, RequestsGoAfterTheirTimeAndDecisionsStay) {
  const std::int64_t now = 400 * kDayUs;
  record_every_ten_seconds(now - 31 * kDayUs, 10);
  record_every_ten_seconds(now - kDayUs, 10);
  RowWriter writer(database_);
  writer.write(CanaryRow{.at_us = now - 300 * kDayUs, .kind = "publish"});
  writer.write(CanaryRow{.at_us = now - 300 * kDayUs, .kind = "undecided"});
  for (const int days : {31, 29}) writer.write(LearningRow{.at_us = now - days * kDayUs, .topic = "sql"});
  keep_small(database_, {30 * kDayUs, kPlenty}, now);
  EXPECT_EQ(database_.integer("SELECT COUNT(*) FROM requests"), 10);
  EXPECT_EQ(database_.integer("SELECT COUNT(*) FROM same_text"), 10);
  EXPECT_EQ(database_.integer("SELECT COUNT(*) FROM learning"), 1);
  EXPECT_EQ(database_.integer("SELECT COUNT(*) FROM canary_decisions WHERE kind = 'publish'"), 1);
  EXPECT_EQ(database_.integer("SELECT COUNT(*) FROM canary_decisions"), 1);
}

TEST_F(UpkeepTest, OverTheSizeTheOldestRequestsGo) {
  const std::int64_t now = 400 * kDayUs;
  record_every_ten_seconds(now - kDayUs, 4000);
  const std::int64_t newest = database_.integer("SELECT MAX(id) FROM requests");
  constexpr std::uint64_t kBound = 700'000;
  keep_small(database_, {30 * kDayUs, kBound}, now);
  const auto pages = database_.integer("PRAGMA page_count") - database_.integer("PRAGMA freelist_count");
  EXPECT_LE(pages * 4096, static_cast<std::int64_t>(kBound));
  EXPECT_EQ(database_.integer("SELECT MAX(id) FROM requests"), newest);
  EXPECT_GT(database_.integer("SELECT COUNT(*) FROM requests"), 100);
}

// Bug: the engine's load had no end, nor had days of acceptance. Once these alone were over the size, every request
// went.
TEST_F(UpkeepTest, LoadRowsExpireAndNeverCrowdOutRequests) {
  const std::int64_t now = 400 * kDayUs;
  RowWriter writer(database_);
  for (const int days : {31, 29}) writer.write(EngineLoadRow{.bucket_us = now - days * kDayUs});
  keep_small(database_, {30 * kDayUs, kPlenty}, now);
  EXPECT_EQ(database_.integer("SELECT COUNT(*) FROM engine_load"), 1);

  const auto requests_within = [&](std::int64_t bytes) {
    keep_small(database_, {30 * kDayUs, static_cast<std::uint64_t>(bytes)}, now);
    const auto pages = database_.integer("PRAGMA page_count") - database_.integer("PRAGMA freelist_count");
    EXPECT_LE(pages * 4096, bytes);
    return database_.integer("SELECT COUNT(*) FROM requests");
  };
  record_every_ten_seconds(now - kDayUs / 2, 1000);
  database_.execute("BEGIN");
  for (int i = 0; i < 20'000; ++i) writer.write(EngineLoadRow{.bucket_us = now - i * 100 * kSecondUs});
  database_.execute("COMMIT");
  EXPECT_GT(requests_within(1'000'000), 300);
  EXPECT_GT(database_.integer("SELECT COUNT(*) FROM engine_load"), 1000);

  database_.execute(
      "INSERT INTO acceptance WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 29999) "
      "SELECT i / 100 * 86400000000, 86400000000, 'sql', 'sql', i % 100, 0, 'greedy', '0', 'draft', 0, 5, 3, 2 "
      "FROM n");
  EXPECT_GT(requests_within(1'500'000), 300);
  EXPECT_EQ(database_.integer("SELECT MAX(bucket_us) FROM acceptance WHERE bucket_width_us = 86400000000"),
            299 * kDayUs);
}

}  // namespace
}  // namespace slip
