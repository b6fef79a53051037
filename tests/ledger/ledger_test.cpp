// SPDX-License-Identifier: Apache-2.0
#include "ledger/ledger.h"
#include "tests/common/patience.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <thread>

#include "common/clock.h"
#include "common/error.h"
#include "common/fail_point.h"
#include "ledger/database.h"
#include "ledger/schema.h"
#include "tests/ledger/sample_ledger.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class LedgerTest : public ::testing::Test {
 protected:
  ~LedgerTest() override { arm_fail_point(""); }

  std::int64_t count(const std::string& sql) {
    Database database(file_, Database::Mode::kReadOnly);
    return database.integer(sql);
  }
  std::optional<Error> open_error() {
    try {
      const Ledger ledger(options_for(file_));
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }
  template <class Condition>
  static bool eventually(Condition condition) {
    for (int i = 0; i < 1000 * testing::kPatience && !condition(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return condition();
  }
  static std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TemporaryFolder folder_;
  const fs::path file_ = folder_ / "ledger.db";
};

RequestRow numbered(std::uint64_t number) {
  RequestRow row = sample_request("sql", wall_us(), 6, 4);
  row.request_id = number;
  return row;
}

TEST_F(LedgerTest, KeepsEveryKindOfRowAcrossReopening) {
  {
    Ledger ledger(options_for(file_));
    RequestRow request = numbered(1);
    request.http_id = "abc";
    request.reached_at = {5, 3, 0};
    request.accepted_at = {3, 2};
    ledger.record(request);
    ledger.record(sample_score(request, 0.7, 0.5));
    ledger.record(DraftVersionRow{"sql", "sql", "canary", "aa", 1, 0, kSampleStartUs, 0.5, 0.6, 0.01, 40, 12});
    ledger.record(CanaryRow{.at_us = 5, .topic = "sql", .draft = "sql", .kind = "publish", .reason = "better"});
    ledger.record(DriftEventRow{7, "sql", "sql", "fell", 1, 0.6, 0.4});
    EngineLoadRow load;
    load.bucket_us = 10;
    load.steps = 3;
    load.max_running = 2;
    ledger.record(load);
    load.max_running = 1;
    ledger.record(load);  // the same bucket again: adds up
  }
  Ledger again(options_for(file_));
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests WHERE request_id = 1 AND http_id = 'abc' AND accepted = 6"), 1);
  EXPECT_EQ(count("SELECT COUNT(*) FROM same_text"), 1);
  EXPECT_EQ(count("SELECT optimizer_steps FROM draft_versions"), 40);
  EXPECT_EQ(count("SELECT COUNT(*) FROM canary_decisions WHERE kind = 'publish'"), 1);
  EXPECT_EQ(count("SELECT COUNT(*) FROM drift_events WHERE detail = 'fell'"), 1);
  EXPECT_EQ(count("SELECT steps FROM engine_load"), 6);
  EXPECT_EQ(count("SELECT max_running FROM engine_load"), 2);
}

TEST_F(LedgerTest, AcceptanceAddsUpByBucketAndHoldsNoZeroRows) {
  Ledger ledger(options_for(file_));
  for (int i = 0; i < 3; ++i) {
    RequestRow row = sample_request("sql", kSampleStartUs + i * kSecondUs, 5, 4);
    row.reached_at = {5, 3, 0};
    row.accepted_at = {3, 2, 0};
    ledger.record(row);
    row.temperature = 0.8;
    row.rule = "rejection";
    ledger.record(row);
  }
  ledger.flush();
  EXPECT_EQ(count("SELECT COUNT(*) FROM acceptance"), 4);  // two positions, two kinds of sampling
  EXPECT_EQ(count("SELECT reached FROM acceptance WHERE position = 0 AND rule = 'greedy'"), 15);
  EXPECT_EQ(count("SELECT accepted FROM acceptance WHERE position = 1 AND temperature_range = '0.5-1'"), 6);
  EXPECT_EQ(count("SELECT first_rejections FROM acceptance WHERE position = 1 AND rule = 'greedy'"), 3);
  EXPECT_EQ(count("SELECT SUM(accepted + first_rejections = reached) FROM acceptance"), 4);
}

TEST_F(LedgerTest, FileIsPrivateInWalModeAndTheWalGoesAtClose) {
  {
    Ledger ledger(options_for(file_));
    ledger.record(numbered(1));
    ledger.flush();
    for (const char* suffix : {"", "-wal", "-shm"}) {
      const auto mode = fs::status(file_.string() + suffix).permissions() & fs::perms::mask;
      EXPECT_EQ(mode, fs::perms(0600)) << suffix;
    }
  }
  EXPECT_TRUE(!fs::exists(file_.string() + "-wal") || fs::file_size(file_.string() + "-wal") == 0);
  Database database(file_, Database::Mode::kReadWrite);
  Statement mode(database, "PRAGMA journal_mode");
  ASSERT_TRUE(mode.step());
  EXPECT_EQ(mode.text(0), "wal");
}

TEST_F(LedgerTest, ReconcileAddsOnlyWhatIsMissing) {
  Ledger ledger(options_for(file_));
  ledger.record(DraftVersionRow{"sql", "sql", "canary", "aa", 1, 0, 1, 0.5, 0.6, 0.01, 40, 12});
  const std::vector<DraftVersionRow> in_store = {{"sql", "sql", "canary", "other", 1, 0, 2},
                                                 {"sql", "sql", "canary", "bb", 2, 1, 3}};
  ledger.reconcile(in_store);
  ledger.flush();
  EXPECT_EQ(count("SELECT COUNT(*) FROM draft_versions"), 2);
  EXPECT_EQ(count("SELECT COUNT(*) FROM draft_versions WHERE version = 1 AND weights_sha256 = 'aa'"), 1);
}

TEST_F(LedgerTest, AFullQueueDropsAndCounts) {
  auto options = options_for(file_);
  options.queue_rows = 50;
  options.commit_interval_us = 60 * kSecondUs;
  Ledger ledger(options);
  for (std::uint64_t i = 0; i < 120; ++i) ledger.record(numbered(i));
  EXPECT_EQ(ledger.dropped(), 70U);
  ledger.flush();
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 50);
  EXPECT_EQ(count("SELECT SUM(rows_dropped) FROM engine_load"), 70);
  ledger.record(numbered(200));  // there is room again
  ledger.flush();
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 51);
  EXPECT_EQ(count("SELECT SUM(rows_dropped) FROM engine_load"), 70);
}

TEST_F(LedgerTest, ManyThreadsRecordWithoutLoss) {
  Ledger ledger(options_for(file_));
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&ledger, t] {
        for (std::uint64_t i = 0; i < 500; ++i) ledger.record(numbered(t * 500 + i));
      });
    }
  }
  ledger.flush();
  EXPECT_EQ(ledger.dropped(), 0U);
  EXPECT_EQ(count("SELECT COUNT(DISTINCT request_id) FROM requests"), 2000);
}

TEST_F(LedgerTest, AFullDiskDelaysRowsAndLosesNone) {
  arm_fail_point("ledger.commit:1:enospc");
  Ledger ledger(options_for(file_));
  ledger.record(numbered(1));
  ledger.flush();
  ledger.record(numbered(2));
  ledger.flush();
  ledger.flush();
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 2);
  EXPECT_EQ(ledger.dropped(), 0U);
}

TEST_F(LedgerTest, ALowDiskPausesItAndRoomLetsItGoOn) {
  auto options = options_for(file_);
  std::atomic<std::uint64_t> free_bytes{1000};
  options.queue_rows = 16;
  options.disk = std::make_shared<DiskSpace>(folder_.path(), 100, [&] { return free_bytes.load(); });
  Ledger ledger(options);
  ledger.record(numbered(1));
  ledger.flush();
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 1);
  free_bytes = 50;
  options.disk->set_least(100);  // asks anew
  ledger.flush();                // the writer has seen it
  for (std::uint64_t i = 2; i <= 30; ++i) ledger.record(numbered(i));
  ledger.flush();
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 1);
  EXPECT_EQ(ledger.dropped(), 13U) << "sixteen wait";
  EXPECT_FALSE(ledger.failing()) << "nothing was tried";
  free_bytes = 1000;
  options.disk->set_least(100);
  ledger.flush();
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 17);
  EXPECT_EQ(count("SELECT SUM(rows_dropped) FROM engine_load"), 13);
}

// `report --out ledger.db` replaced the file of a running service. All rows since were written into a file without a
// name, and neither the log nor a gauge nor a count said so.
TEST_F(LedgerTest, AReplacedFileIsSaidOnceAndRowsAreDroppedUntilItIsBack) {
  const fs::path away = folder_ / "away.db";
  Ledger ledger(options_for(file_));
  ledger.record(numbered(1));
  ledger.flush();
  ::testing::internal::CaptureStderr();
  fs::rename(file_, away);
  std::ofstream(file_) << "a report";
  ASSERT_TRUE(eventually([&] { return ledger.failing(); }));
  EXPECT_EQ(fs::file_size(file_.string() + "-wal"), 0U) << "it would be taken for the log of the file in its place";
  EXPECT_EQ(Database(away, Database::Mode::kImmutable).integer("SELECT COUNT(*) FROM requests"), 1);
  for (std::uint64_t i = 2; i <= 4; ++i) ledger.record(numbered(i));
  ledger.flush();
  EXPECT_EQ(ledger.dropped(), 3U);
  EXPECT_THROW(ledger.purge({.before_us = wall_us()}), Error);
  EXPECT_EQ(read(file_), "a report");
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr(file_.string() + " was deleted, moved or replaced; serving goes on"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;

  ::testing::internal::CaptureStderr();
  fs::rename(away, file_);
  ledger.record(numbered(5));
  EXPECT_TRUE(eventually([&] { return !ledger.failing(); }));
  ledger.flush();
  said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr(file_.string() + " is back"));
  EXPECT_GT(ledger.dropped(), 2U);
  const auto dropped = static_cast<std::int64_t>(ledger.dropped());
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests") + dropped, 5) << "the fifth was dropped or kept";
  EXPECT_EQ(count("SELECT SUM(rows_dropped) FROM engine_load"), dropped);
}

TEST_F(LedgerTest, AFileThatIsAwayForAMomentLosesNoRow) {
  auto options = options_for(file_);
  options.commit_interval_us = 10 * kSecondUs;
  Ledger ledger(options);
  fs::rename(file_, folder_ / "away.db");
  ledger.record(numbered(1));
  ledger.flush();
  EXPECT_FALSE(ledger.failing());
  fs::rename(folder_ / "away.db", file_);
  ledger.flush();
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 1);
  EXPECT_EQ(ledger.dropped(), 0U);
}

// Of a whole directory that is gone one line tells, the data directory's.
TEST_F(LedgerTest, AFileThatIsGoneWithItsDirectoryIsNotSaidTwice) {
  auto options = options_for(file_);
  options.disk = std::make_shared<DiskSpace>(
      folder_.path(), 0, [] { return std::nullopt; }, [&] { return fs::exists(file_); });
  ::testing::internal::CaptureStderr();
  {
    Ledger ledger(options);
    fs::rename(file_, folder_ / "away.db");
    options.disk->set_least(0);  // asks anew
    EXPECT_TRUE(options.disk->gone());
    std::this_thread::sleep_for(std::chrono::microseconds(10 * options.commit_interval_us));
    ledger.flush();
    EXPECT_FALSE(ledger.failing());
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(LedgerTest, AClockThatStepsBackKeepsTheOrderOfRecording) {
  Ledger ledger(options_for(file_));
  for (std::uint64_t i = 1; i <= 6; ++i) {
    RequestRow row = numbered(i);
    row.finished_us = kSampleStartUs - static_cast<std::int64_t>(i) * 3600 * kSecondUs;
    row.reached_at = {10};
    row.accepted_at = {6};
    ledger.record(row);
  }
  ledger.flush();
  EXPECT_EQ(count("SELECT request_id FROM recent_requests LIMIT 1"), 6);
  EXPECT_EQ(count("SELECT SUM(reached) FROM acceptance"), 60);
  EXPECT_GT(count("SELECT requests FROM topics"), 0);
}

TEST_F(LedgerTest, WhatIsNotANumberDoesNotStopTheLedger) {
  Ledger ledger(options_for(file_));
  RequestRow row = numbered(1);
  row.ttft_ms = std::nan("");
  ledger.record(row);
  ledger.record(numbered(2));
  ledger.flush();
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 2);
}

TEST_F(LedgerTest, TextIsDataNotSql) {
  Ledger ledger(options_for(file_));
  RequestRow row = numbered(1);
  row.topic = "x'); DROP TABLE requests; --";
  ledger.record(row);
  ledger.flush();
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests WHERE topic LIKE '%DROP TABLE%'"), 1);
}

TEST_F(LedgerTest, AFallInAcceptanceBecomesADriftEventEvenAcrossARestart) {
  std::mt19937 random(3);
  std::normal_distribution<double> good(28, 3), bad(18, 3);
  std::int64_t at = kSampleStartUs;
  const auto record = [&](Ledger& ledger, double accepted) {
    const int n = std::clamp(static_cast<int>(accepted), 0, 40);
    ledger.record(sample_request("sql", at += kSecondUs, n, 40 - n));
  };
  {
    Ledger ledger(options_for(file_));
    for (int i = 0; i < 80; ++i) record(ledger, good(random));
    ledger.flush();
    EXPECT_EQ(count("SELECT COUNT(*) FROM drift_events"), 0);
  }
  Ledger ledger(options_for(file_));
  for (int i = 0; i < 25; ++i) record(ledger, bad(random));  // fewer than a warm-up takes
  ledger.flush();
  EXPECT_EQ(count("SELECT COUNT(*) FROM drift_events WHERE topic = 'sql' AND alpha_before > alpha_after + 0.1"), 1);
}

TEST_F(LedgerTest, ADamagedFileIsRefusedWithTheNextStepAndLeftAlone) {
  std::ofstream(file_, std::ios::binary) << std::string(9000, 'x');
  const std::string before = read(file_);
  const auto error = open_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kDataLoss);
  EXPECT_THAT(error->hint(), HasSubstr("mv " + file_.string()));
  EXPECT_EQ(read(file_), before);
}

TEST_F(LedgerTest, ADamagedPageIsNoticed) {
  {
    Ledger ledger(options_for(file_));
    for (std::uint64_t i = 0; i < 500; ++i) ledger.record(numbered(i));
  }
  {
    std::fstream bytes(file_, std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekp(2 * 4096);
    bytes << std::string(4096, '\xEE');
  }
  const auto error = open_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kDataLoss);
}

// One byte was taken for a new database.
TEST_F(LedgerTest, AFileOfAFewBytesIsDamagedNotNew) {
  for (const std::size_t bytes : {1, 50, 99}) {
    std::ofstream(file_, std::ios::binary) << std::string(bytes, 'S');
    const auto error = open_error();
    ASSERT_TRUE(error) << bytes;
    EXPECT_EQ(error->code(), ErrorCode::kDataLoss) << bytes;
    EXPECT_EQ(fs::file_size(file_), bytes) << "it is left as it is";
  }
  fs::resize_file(file_, 0);
  EXPECT_FALSE(open_error());
}

TEST_F(LedgerTest, ALinkIsNamedAsOne) {
  fs::create_symlink(folder_ / "nowhere", file_);
  const auto error = open_error();
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr(file_.string() + " is a symbolic link"));
}

// The end of a service waited 15 s for the lock three times, and neither log nor purge said what for.
TEST_F(LedgerTest, ALockOfAnotherProcessIsNamedAndWaitedForBriefly) {
  auto options = options_for(file_);
  options.lock_patience_ms = 20;
  {
    Ledger first(options);
    first.record(numbered(1));
  }
  Database other(file_, Database::Mode::kReadWrite);
  auto ledger = std::make_optional<Ledger>(options);
  other.execute("BEGIN IMMEDIATE");
  ledger->record(numbered(2));
  ledger->flush();
  EXPECT_TRUE(ledger->failing());
  try {
    ledger->purge({.before_us = wall_us()});
    ADD_FAILURE() << "purged";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("locked, by another process"));
  }
  other.execute("ROLLBACK");
  ledger->flush();
  EXPECT_FALSE(ledger->failing());
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 2);
  other.execute("BEGIN IMMEDIATE");
  ledger->record(numbered(3));
  ::testing::internal::CaptureStderr();
  ledger.reset();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("1 rows that waited are lost: cannot use"));
  other.execute("ROLLBACK");
}

TEST_F(LedgerTest, ADirectoryALinkOrAnotherProgramsDatabaseIsRefused) {
  fs::create_directory(file_);
  EXPECT_TRUE(open_error());
  fs::remove(file_);
  { Database(folder_ / "victim.db", Database::Mode::kReadWrite).execute("CREATE TABLE theirs (x)"); }
  fs::create_symlink(folder_ / "victim.db", file_);
  EXPECT_TRUE(open_error());
  fs::remove(file_);
  fs::rename(folder_ / "victim.db", file_);
  const auto error = open_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kPermission);
  EXPECT_EQ(count("SELECT COUNT(*) FROM sqlite_master"), 1);
}

// In a child: records rows in batches, tells through the pipe what was flushed, dies at the n-th fail point.
std::uint64_t flushed_before_death(const fs::path& file, int n, bool& killed) {
  int acknowledged[2];
  EXPECT_EQ(::pipe(acknowledged), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto options = options_for(file);
    options.commit_interval_us = 60 * kSecondUs;
    Ledger ledger(options);
    arm_fail_point("ledger.*:" + std::to_string(n) + ":kill");
    for (std::uint64_t i = 1; i <= 12; ++i) {
      ledger.record(numbered(i));
      if (i % 3 != 0) continue;
      ledger.flush();
      if (::write(acknowledged[1], &i, sizeof(i)) != sizeof(i)) ::_exit(2);
    }
    ::_exit(0);
  }
  ::close(acknowledged[1]);
  std::uint64_t last = 0, value = 0;
  while (::read(acknowledged[0], &value, sizeof(value)) == sizeof(value)) last = value;
  ::close(acknowledged[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  killed = WIFSIGNALED(status);
  return last;
}

TEST_F(LedgerTest, KilledAtAnyPointItOpensWithEveryCommittedRow) {
  int n = 1;
  for (;; ++n) {
    fs::remove(file_);
    fs::remove(file_.string() + "-wal");
    fs::remove(file_.string() + "-shm");
    bool killed = false;
    const std::uint64_t flushed = flushed_before_death(file_, n, killed);
    if (!killed) break;
    ASSERT_NO_THROW(Ledger{options_for(file_)}) << n;
    const std::int64_t kept = count("SELECT COUNT(*) FROM requests");
    EXPECT_GE(kept, static_cast<std::int64_t>(flushed)) << n;
    EXPECT_EQ(kept % 3, 0) << "a batch is there or it is not, crash " << n;
    EXPECT_EQ(count("SELECT IFNULL(MAX(request_id), 0) FROM requests"), kept) << n;
    EXPECT_EQ(count("SELECT IFNULL(SUM(reached), 0) FROM acceptance"), 10 * kept) << n;
  }
  EXPECT_EQ(n - 1, 4 * (3 + 3));  // four batches: begin, three inserts, commit, committed
}

// The child's planted bug: it acknowledges before the row is committed, and the check above must see the loss.
TEST_F(LedgerTest, NegativeAnAcknowledgementBeforeTheCommitWouldShow) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto options = options_for(file_);
    options.commit_interval_us = 60 * kSecondUs;
    Ledger ledger(options);
    ledger.record(numbered(1));
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  const Ledger again(options_for(file_));
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 0);
}

TEST_F(LedgerTest, KillDashNineLosesAtMostOneSecond) {
  const pid_t child = ::fork();
  if (child == 0) {
    LedgerOptions options;  // the interval a service has
    options.file = file_;
    Ledger ledger(options);
    for (std::uint64_t i = 1;; ++i) {
      ledger.record(numbered(i));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1700));
  const std::int64_t killed_us = wall_us();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const Ledger again(options_for(file_));
  // Under a sanitizer the commit itself takes a while on a busy machine.
  const std::int64_t most_lost_us = testing::kPatience > 1 ? kSecondUs * 3 / 2 : kSecondUs;
  EXPECT_GT(count("SELECT MAX(finished_us) FROM requests"), killed_us - most_lost_us);
  EXPECT_EQ(count("SELECT MAX(request_id) - COUNT(*) FROM requests"), 0);  // without holes
}

}  // namespace
}  // namespace slip
