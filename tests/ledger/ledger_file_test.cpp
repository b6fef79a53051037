// SPDX-License-Identifier: Apache-2.0
// The ledger's file: its permissions, one that was moved, damaged or locked, and what is not a ledger.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "common/clock.h"
#include "common/error.h"
#include "ledger/database.h"
#include "ledger/index_guard.h"
#include "ledger/ledger.h"
#include "tests/common/damage.h"
#include "tests/ledger/ledger_fixture.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using testing::eventually;
using ::testing::HasSubstr;
using testing::LedgerTest;
using testing::numbered;

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

// `report --out ledger.db` replaced the file of a running service. All rows since were written into a file without a
// name, and neither the log nor a gauge nor a count said so.
TEST_F(LedgerTest, AReplacedFileIsLoggedOnceAndRowsAreDroppedUntilItIsBack) {
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
  EXPECT_THAT(said, HasSubstr(file_.string() + " was deleted, moved, replaced or cut; serving goes on"));
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

// Bug: the file was looked at only every second or two. Rows that a stop wrote into a file without a name were lost
// without a word.
TEST_F(LedgerTest, AFileThatIsGoneWhenTheLedgerEndsIsLogged) {
  const std::vector<std::function<void()>> changes = {[&] { fs::remove(file_); },
                                                      [&] {
                                                        std::ofstream(folder_ / "other") << "x";
                                                        fs::rename(folder_ / "other", file_);
                                                      }};
  for (const auto& change : changes) {
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(file_.string() + suffix);
    ::testing::internal::CaptureStderr();
    {
      LedgerOptions options = options_for(file_);
      options.commit_interval_us = 60'000'000;  // so that only its end looks
      Ledger ledger(std::move(options));
      ledger.record(numbered(1));
      ledger.flush();
      change();
      ledger.record(numbered(2));
    }
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("was deleted, moved, replaced or cut; unless it"));
  }
}

// Bug: a trigger that an operator had added ignored every row, and no count said so.
TEST_F(LedgerTest, ARowThatATriggerIgnoresIsCounted) {
  { Ledger ledger(options_for(file_)); }
  Database(file_, Database::Mode::kReadWrite)
      .execute("CREATE TRIGGER quiet BEFORE INSERT ON requests BEGIN SELECT RAISE(IGNORE); END");
  ::testing::internal::CaptureStderr();
  Ledger ledger(options_for(file_));
  ledger.record(numbered(1));
  ledger.flush();
  EXPECT_EQ(ledger.dropped(), 1U);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("a trigger that was added to the ledger"));
}

// Bug: rows were written after what was left, and the next start refused the file.
TEST_F(LedgerTest, AFileThatIsCutOrOverwrittenIsLoggedAndItsRowsAreCounted) {
  const std::vector<std::function<void()>> changes = {
      [&] { fs::resize_file(file_, 0); }, [&] { fs::resize_file(file_, 5'000); },
      [&] { std::fstream(file_, std::ios::in | std::ios::out | std::ios::binary) << std::string(6'000, 'x'); }};
  for (const auto& change : changes) {
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(file_.string() + suffix);
    Ledger(options_for(file_)).record(numbered(1));  // its end moves all pages from the WAL into the file
    ::testing::internal::CaptureStderr();
    {
      Ledger ledger(options_for(file_));
      ledger.flush();
      EXPECT_FALSE(ledger.failing());
      change();
      ASSERT_TRUE(eventually([&] { return ledger.failing(); }));
      ledger.record(numbered(2));
      EXPECT_TRUE(eventually([&] { return ledger.dropped() == 1; }));
      EXPECT_THROW(ledger.purge({.before_us = wall_us()}), Error);
      ledger.record(numbered(3));
      ledger.flush();
      EXPECT_TRUE(ledger.failing()) << "the file is still cut";
    }
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr(file_.string() + " was deleted, moved, replaced or cut"));
    EXPECT_THAT(said, HasSubstr("until a restart"));
    EXPECT_THAT(said, ::testing::Not(HasSubstr("is back")));
    EXPECT_THAT(said, HasSubstr("2 rows were dropped"));
  }
}

// Before the writer looked at the file again; see also ServeTest.ALedgerThatIsCutRightBeforeTheEndIsLogged.
TEST_F(LedgerTest, AFileThatIsCutRightBeforeTheEndIsLogged) {
  ::testing::internal::CaptureStderr();
  {
    Ledger ledger(options_for(file_));
    ledger.flush();
    fs::resize_file(file_, 5'000);
    for (std::uint64_t id = 1; id <= 20; ++id) ledger.record(numbered(id));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(file_.string() + " was deleted, moved, replaced or cut"));
}

// Bug: SQLite's next look at the index of its WAL, which it maps, ended the service (SIGBUS).
TEST_F(LedgerTest, AnIndexOfTheWalThatIsCutIsBuiltAnew) {
  constexpr int kRows = 40;
  for (const std::uintmax_t left : {0, 100, 20'000}) {
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(file_.string() + suffix);
    Ledger ledger(options_for(file_));
    const fs::path index = file_.string() + "-shm";
    std::uint64_t id = 0;
    while (id < kRows) ledger.record(numbered(++id));
    ledger.flush();
    ASSERT_TRUE(eventually([&] { return fs::file_size(index) > left; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the writer has seen it whole
    fs::resize_file(index, left);
    while (id < 2 * kRows) ledger.record(numbered(++id));
    ledger.flush();
    EXPECT_FALSE(ledger.failing());
    EXPECT_EQ(ledger.dropped(), 0U);
    EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 2 * kRows) << left;
  }
}

// Bug: a cut in the middle of a write ended the service (SIGBUS in SQLite's mapping).
TEST_F(LedgerTest, AnIndexOfTheWalThatIsCutWhileRowsAreWrittenLosesNone) {
  constexpr std::uint64_t kRows = 400, kCuts = 8;
  const std::uint64_t before = index_cuts();
  const std::string index = file_.string() + "-shm";
  {
    auto options = options_for(file_);
    options.commit_interval_us = 1'000;
    Ledger ledger(options);
    std::atomic<bool> cutting{true};
    std::thread attacker([&] {
      while (cutting && index_cuts() < before + kCuts) static_cast<void>(!::truncate(index.c_str(), 0));
    });
    for (std::uint64_t id = 1; id <= kRows; ++id) {
      ledger.record(numbered(id));
      ledger.flush();
    }
    cutting = false;
    attacker.join();
    EXPECT_EQ(ledger.dropped(), 0U);
  }
  EXPECT_GT(index_cuts(), before);
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), kRows);
  EXPECT_EQ(count("SELECT COUNT(DISTINCT id) FROM requests"), kRows);
  EXPECT_EQ(count("SELECT COUNT(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
}

// Its header says so many pages, and the disk had no room for the last ones: that file was called cut.
TEST_F(LedgerTest, AFileThatTheDiskLetsNotGrowIsNotCut) {
  Ledger ledger(options_for(file_));
  for (std::uint64_t id = 1; id <= 600; ++id) ledger.record(numbered(id));
  ledger.flush();
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full{fs::file_size(file_), before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &full);
  for (std::uint64_t id = 601; id <= 700; ++id) ledger.record(numbered(id));
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ledger.flush();
  }
  EXPECT_EQ(fs::file_size(file_), full.rlim_cur);
  EXPECT_FALSE(ledger.failing());
  ::setrlimit(RLIMIT_FSIZE, &before);
  ledger.record(numbered(701));
  ledger.flush();
  EXPECT_EQ(ledger.dropped(), 0U);
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 701);
}

// Rows lay in the WAL until it had a thousand pages, and were gone with it at the next start.
TEST_F(LedgerTest, NoRowIsInTheWalAlone) {
  const std::string wal = file_.string() + "-wal";
  const std::vector<std::function<void()>> changes = {
      [&] {}, [&] { fs::remove(wal); }, [&] { fs::resize_file(wal, 0); },
      [&] { std::fstream(wal, std::ios::in | std::ios::out | std::ios::binary) << std::string(3'000, 'x'); },
      [&] {
        fs::copy_file(wal, wal + ".copy");
        fs::rename(wal + ".copy", wal);
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const fs::path alone = folder_ / ("alone-" + std::to_string(i) + ".db");
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(file_.string() + suffix);
    Ledger ledger(options_for(file_));
    for (std::uint64_t id = 1; id <= 40; ++id) {
      ledger.record(numbered(id));
      ledger.flush();
      if (id == 20) changes[i]();
    }
    fs::copy_file(file_, alone);
    EXPECT_EQ(Database(alone, Database::Mode::kReadWrite).integer("SELECT COUNT(*) FROM requests"), 40) << i;
  }
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
TEST_F(LedgerTest, AFileThatIsGoneWithItsDirectoryIsNotLoggedTwice) {
  auto options = options_for(file_);
  std::atomic<bool> in_place{true};
  options.disk = std::make_shared<DiskSpace>(
      folder_.path(), 0, [] { return std::nullopt; }, [&] { return in_place.load(); });
  ::testing::internal::CaptureStderr();
  {
    Ledger ledger(options);
    in_place = false;            // before the file: between the two the writer may have many rounds
    options.disk->set_least(0);  // asks anew
    ASSERT_TRUE(eventually([&] { return options.disk->gone(); }));  // not at once if the writer is asking
    fs::rename(file_, folder_ / "away.db");
    std::this_thread::sleep_for(std::chrono::microseconds(10 * options.commit_interval_us));
    ledger.flush();
    EXPECT_FALSE(ledger.failing());
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
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
  testing::overwrite(file_, 2 * 4096, std::string(4096, '\xEE'));
  const auto error = open_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kDataLoss);
}

// Larger files than 256 MiB are not checked before they are read.
TEST_F(LedgerTest, ADamagedPageOfALargeFileIsNoticedWhenItIsRead) {
  constexpr std::uintmax_t kLargeBytes = std::uintmax_t{257} << 20;  // sparse
  {
    Ledger ledger(options_for(file_));
    for (std::uint64_t i = 0; i < 500; ++i) ledger.record(numbered(i));
  }
  const std::int64_t page = count("SELECT rootpage FROM sqlite_master WHERE name = 'requests'");
  fs::resize_file(file_, kLargeBytes);
  EXPECT_FALSE(open_error());
  fs::resize_file(file_, kLargeBytes);
  testing::overwrite(file_, (page - 1) * 4096, std::string(4096, '\xEE'));
  const auto error = open_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kDataLoss);
  EXPECT_THAT(error->hint(), HasSubstr("mv " + file_.string()));
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
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("1 pending rows are lost: cannot use"));
  other.execute("ROLLBACK");
}

TEST_F(LedgerTest, ADirectoryALinkOrAnotherProgramsDatabaseIsRefused) {
  const auto expect_named = [&] {
    const auto error = open_error();
    ASSERT_TRUE(error);
    EXPECT_NE(error->message().find(file_.string()), std::string::npos) << error->message();
  };
  fs::create_directory(file_);
  expect_named();
  fs::remove(file_);
  { Database(folder_ / "victim.db", Database::Mode::kReadWrite).execute("CREATE TABLE theirs (x)"); }
  fs::create_symlink(folder_ / "victim.db", file_);
  expect_named();
  fs::remove(file_);
  fs::rename(folder_ / "victim.db", file_);
  expect_named();
  const auto error = open_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kPermission);
  EXPECT_EQ(count("SELECT COUNT(*) FROM sqlite_master"), 1);
}

// Bug: it was refused, but only after it had been put into WAL mode.
TEST_F(LedgerTest, AnotherProgramsDatabaseIsNotWritten) {
  { Database(file_, Database::Mode::kReadWrite).execute("CREATE TABLE theirs (x)"); }
  const std::string before = read(file_);
  const auto error = open_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kPermission);
  EXPECT_THAT(error->hint(), HasSubstr("another data directory"));
  EXPECT_TRUE(read(file_) == before);
}

}  // namespace
}  // namespace slip
