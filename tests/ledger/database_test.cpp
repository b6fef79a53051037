// SPDX-License-Identifier: Apache-2.0
#include "ledger/database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/error.h"
#include "tests/ledger/sample_ledger.h"

namespace slip {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A start on a full disk ended with "disk I/O error" alone. /proc stands for one: its file system has no free bytes.
TEST(DatabaseTest, AFullDiskIsNamedByItsFolder) {
  EXPECT_EQ(full_disk_text("/proc/ledger.db"), "; the disk of /proc is full: 0 bytes are free");
  const TemporaryFolder folder;
  EXPECT_EQ(full_disk_text(folder / "ledger.db"), "") << "there is room";
  EXPECT_EQ(full_disk_text("/nowhere/at/all/ledger.db"), "") << "it is not known";
}

TEST(DatabaseTest, WhatFailsForAnotherReasonIsNotCalledAFullDisk) {
  const TemporaryFolder folder;
  Database database(folder / "x.db", Database::Mode::kReadWrite);
  for (const int result : {SQLITE_IOERR, SQLITE_FULL, SQLITE_CANTOPEN}) {
    try {
      database.fail(result, "use");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_THAT(error.message(), HasSubstr("x.db"));
      EXPECT_THAT(error.message(), Not(HasSubstr("bytes are free")));
      // Bug: a backup to a full disk ended with "cannot copy the ledger into x.db: not an error".
      EXPECT_THAT(error.message(), Not(HasSubstr("not an error")));
      EXPECT_THAT(error.message(), HasSubstr(sqlite3_errstr(result)));
    }
  }
}

// Bug: SQLite opened a FIFO in a journal's place, and no command ended.
TEST(DatabaseTest, AFifoBesideItIsNamedAndNotOpened) {
  for (const char* suffix : {"-journal", "-wal", "-shm"}) {
    const TemporaryFolder folder;
    { Database(folder / "x.db", Database::Mode::kReadWrite).execute("CREATE TABLE t (a INTEGER)"); }
    std::filesystem::remove(folder / ("x.db" + std::string(suffix)));
    ASSERT_EQ(::mkfifo((folder / ("x.db" + std::string(suffix))).c_str(), 0600), 0);
    for (const auto mode : {Database::Mode::kReadWrite, Database::Mode::kReadOnly, Database::Mode::kImmutable}) {
      try {
        Database(folder / "x.db", mode);
        ADD_FAILURE() << suffix << " was opened";
      } catch (const Error& error) {
        EXPECT_THAT(error.message(), HasSubstr("x.db" + std::string(suffix)));
        EXPECT_THAT(error.message(), HasSubstr("is not a regular file"));
      }
    }
  }
}

// Bug: a ledger that lacked a table was no fault of the file: "cannot use ledger.db: no such table: requests".
TEST(DatabaseTest, AMissingTableIsDamage) {
  const TemporaryFolder folder;
  Database database(folder / "x.db", Database::Mode::kReadWrite);
  try {
    Statement(database, "SELECT id FROM requests");
    ADD_FAILURE() << "nothing is wrong";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_THAT(error.message(), HasSubstr("x.db is damaged or no SQLite database: no such table: requests"));
    EXPECT_THAT(error.hint(), HasSubstr("move it away"));
  }
}

}  // namespace
}  // namespace slip
