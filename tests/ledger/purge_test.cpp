// SPDX-License-Identifier: Apache-2.0
#include "ledger/purge.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <set>

#include "common/clock.h"
#include "common/error.h"
#include "ledger/ledger.h"
#include "ledger/schema.h"
#include "tests/ledger/sample_ledger.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

// Names in no order: an index of them would have its pages split, and copies of names left behind.
std::string name_of(std::uint64_t id) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "client-%016llx",
                static_cast<unsigned long long>(id * 0x9E3779B97F4A7C15ULL));
  return text.data();
}

RequestRow row_of(std::uint64_t id, std::uint64_t tenant) {
  RequestRow row = sample_request("sql", kSampleStartUs + static_cast<std::int64_t>(id), 6, 4);
  row.request_id = id;
  row.http_id = name_of(id);
  row.tenant = tenant;
  return row;
}

class PurgeTest : public ::testing::Test {
 protected:
  LedgerOptions options() const {
    LedgerOptions given;
    given.file = folder_ / "ledger.db";
    given.keep_requests_us = wall_us();  // everything
    return given;
  }
  // Every name in any file of the folder, in whatever part of it.
  std::set<std::string> names_on_disk() const {
    std::set<std::string> names;
    for (const auto& item : fs::directory_iterator(folder_.path())) {
      std::ifstream in(item.path(), std::ios::binary);
      const std::string content{std::istreambuf_iterator<char>(in), {}};
      for (auto at = content.find("client-"); at != std::string::npos; at = content.find("client-", at + 1)) {
        names.insert(content.substr(at, name_of(1).size()));
      }
    }
    return names;
  }
  std::int64_t count(const std::string& sql) const {
    Database database(folder_ / "ledger.db", Database::Mode::kReadOnly);
    return database.integer(sql);
  }

  TemporaryFolder folder_;
};

TEST_F(PurgeTest, WhatWasPurgedIsInNoFile) {
  constexpr std::uint64_t kRows = 3000;
  Ledger ledger(options());
  for (std::uint64_t id = 1; id <= kRows; ++id) {
    ledger.record(row_of(id, id % 3));
    ledger.record(sample_score(row_of(id, id % 3), 0.7, 0.5));
    if (id % 100 == 0) ledger.flush();
  }
  ASSERT_GE(names_on_disk().size(), kRows) << "or this shows nothing";
  EXPECT_EQ(ledger.purge({.tenant = TenantId{1}}), kRows / 3);
  const auto left = names_on_disk();
  for (std::uint64_t id = 1; id <= kRows; ++id) EXPECT_EQ(left.contains(name_of(id)), id % 3 != 1) << id;
  for (const std::string& name : left) {
    const auto id = std::strtoull(name.c_str() + 7, nullptr, 16) * 0xF1DE83E19937733DULL;
    EXPECT_TRUE(id >= 1 && id <= kRows) << "a part of a name: " << name;
  }
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests WHERE tenant = 1"), 0);
  EXPECT_EQ(count("SELECT COUNT(*) FROM same_text WHERE request_id % 3 = 1"), 0);
  EXPECT_EQ(count("SELECT COUNT(*) FROM same_text"), 2 * kRows / 3);
  EXPECT_EQ(ledger.purge({.tenant = TenantId{1}}), 0U);
}

// The purge ended well, and the rows were there.
TEST_F(PurgeTest, ATriggerThatKeepsRowsIsReported) {
  Ledger ledger(options());
  ledger.record(row_of(1, 1));
  ledger.flush();
  Database(folder_ / "ledger.db", Database::Mode::kReadWrite)
      .execute("CREATE TRIGGER keep BEFORE DELETE ON requests BEGIN SELECT RAISE(IGNORE); END");
  try {
    ledger.purge({.tenant = TenantId{1}});
    ADD_FAILURE() << "purged";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_NE(error.message().find("ledger.db keeps rows of its table requests"), std::string::npos) << error.message();
    EXPECT_NE(error.hint().find("drop the triggers"), std::string::npos) << error.hint();
  }
  Database(folder_ / "ledger.db", Database::Mode::kReadWrite).execute("DROP TRIGGER keep");
  EXPECT_EQ(ledger.purge({.tenant = TenantId{1}}), 1U);
}

TEST_F(PurgeTest, TheHashThatRowsAreFoundByStays) {
  EXPECT_EQ(hash_http_id(""), 0xCBF29CE484222325ULL);
  EXPECT_EQ(hash_http_id("foobar"), 0x85944171F73967E8ULL) << "a test vector of FNV-1a";
}

// Rows from before calls and tenants were recorded.
TEST_F(PurgeTest, OldRowsAreFoundByTheirNameButAreNoTenants) {
  {
    Database old(folder_ / "ledger.db", Database::Mode::kReadWrite);
    migrate(old, ledger_migrations().first(3));
    old.execute(
        "INSERT INTO requests VALUES (NULL, 8, 'mine', 1763719200000000, 'sql', '', 0, 0, 'greedy', 0, 'length', 1, 1, "
        "1, 0, 0, 0, 0, "
        "0, 0, 0, 0, 'none')");
  }
  Ledger ledger(options());
  EXPECT_EQ(ledger.calls_named("mine", std::nullopt), std::vector<RequestId>{RequestId{8}});
  EXPECT_TRUE(ledger.calls_named("mine", TenantId{0}).empty());
  EXPECT_EQ(ledger.purge({.tenant = TenantId{0}}), 0U);
  EXPECT_EQ(ledger.purge({.calls = {RequestId{8}}}), 1U);
}

TEST_F(PurgeTest, AScopeIsAllItsConditions) {
  Ledger ledger(options());
  for (std::uint64_t id = 1; id <= 12; ++id) {
    RequestRow row = row_of(id, id % 2);
    row.call_id = id <= 3 ? 1 : id;  // three choices
    if (id >= 10) row.http_id = "mine";
    ledger.record(row);
    ledger.record(sample_score(row, 0.7, 0.5));
  }
  EXPECT_EQ(ledger.calls_named("mine", std::nullopt).size(), 3U);
  EXPECT_EQ(ledger.calls_named("mine", TenantId{1}), std::vector<RequestId>{RequestId{11}});
  EXPECT_TRUE(ledger.calls_named("'; DROP TABLE requests; --", std::nullopt).empty());
  EXPECT_EQ(ledger.purge({.calls = {RequestId{4}}, .tenant = TenantId{1}}), 0U) << "another tenant's";
  EXPECT_EQ(ledger.purge({.calls = {RequestId{4}, RequestId{99}}, .tenant = TenantId{0}}), 1U);
  EXPECT_EQ(ledger.purge({.calls = {RequestId{1}}}), 3U) << "a call with its choices";
  EXPECT_EQ(ledger.purge({.tenant = TenantId{1}, .before_us = kSampleStartUs + 7}), 1U) << "of 5 and 7 the first";
  EXPECT_EQ(ledger.purge({.before_us = kSampleStartUs + 9}), 3U) << "6, 7 and 8";
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 4);
  EXPECT_EQ(count("SELECT MIN(request_id) FROM requests"), 9);
  EXPECT_EQ(count("SELECT SUM(request_id BETWEEN 4 AND 8) FROM same_text"), 0);
}

// Rows that wait in memory would be written behind the purge's back.
TEST_F(PurgeTest, RowsThatWaitAreReachedToo) {
  LedgerOptions slow = options();
  slow.commit_interval_us = 3'600'000'000;
  Ledger ledger(slow);
  ledger.record(row_of(1, 0));
  EXPECT_EQ(ledger.purge({.calls = {RequestId{1}}}), 1U);
  ledger.flush();
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 0);
}

TEST_F(PurgeTest, TenantsAreFoundByTheNamesOfTheirKeysUntilAllOfTheirsIsPurged) {
  Ledger ledger(options());
  for (const TenantNameRow& row : {TenantNameRow{"team-a", {1}}, TenantNameRow{"team-a", {2}},
                                   TenantNameRow{"team-b", {3}}, TenantNameRow{"team-a", {1}}}) {
    ledger.record(row);
  }
  EXPECT_EQ(ledger.tenants_named("team-a"), (std::vector<TenantId>{{1}, {2}})) << "a key was replaced";
  EXPECT_TRUE(ledger.tenants_named("team").empty());
  ledger.record(row_of(1, 1));
  EXPECT_EQ(ledger.purge({.tenant = TenantId{1}, .before_us = kSampleStartUs}), 0U);
  EXPECT_EQ(ledger.purge({.calls = {RequestId{2}}, .tenant = TenantId{1}}), 0U);
  EXPECT_EQ(ledger.tenants_named("team-a").size(), 2U) << "not all of it is gone";
  EXPECT_EQ(ledger.purge({.tenant = TenantId{1}}), 1U);
  EXPECT_EQ(ledger.tenants_named("team-a"), std::vector<TenantId>{TenantId{2}});
  EXPECT_EQ(ledger.tenants_named("team-b"), std::vector<TenantId>{TenantId{3}});
}

// A reader that is in the middle of its answer needs the pages that a purge wants gone.
TEST_F(PurgeTest, AReaderThatKeepsOldPagesIsNamedAndTheyGoAfterIt) {
  Ledger ledger(options());
  ledger.record(row_of(1, 0));
  ledger.record(row_of(2, 0));
  ledger.flush();
  {
    Database reader(folder_ / "ledger.db", Database::Mode::kReadOnly);
    Statement answer(reader, "SELECT request_id FROM requests");
    ASSERT_TRUE(answer.step());
    try {
      ledger.purge({.calls = {RequestId{1}}});
      ADD_FAILURE() << "the purge says it is done";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
      EXPECT_NE(error.message().find("ledger.db-wal"), std::string::npos);
    }
  }
  ledger.purge({.calls = {RequestId{77}}});
  EXPECT_EQ(names_on_disk(), std::set<std::string>{name_of(2)});
}

}  // namespace
}  // namespace slip
