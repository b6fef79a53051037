// SPDX-License-Identifier: Apache-2.0
#include "ledger/backup.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "common/error.h"
#include "common/fail_point.h"
#include "common/file.h"
#include "ledger/database.h"
#include "ledger/ledger.h"
#include "ledger/report.h"
#include "tests/common/damage.h"
#include "tests/ledger/sample_ledger.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class BackupTest : public ::testing::Test {
 protected:
  ~BackupTest() override { arm_fail_point(""); }

  ErrorCode refused(const fs::path& from, const fs::path& to) {
    try {
      back_up_ledger(from, to);
    } catch (const Error& error) {
      message_ = error.message();
      hint_ = error.hint();
      return error.code();
    }
    ADD_FAILURE() << "accepted";
    return ErrorCode::kInternal;
  }
  static std::int64_t rows(const fs::path& file) {
    return Database(file, Database::Mode::kReadOnly).integer("SELECT COUNT(*) FROM requests");
  }
  void record_fifty() const {
    Ledger ledger(options_for(file_));
    for (int i = 0; i < 50; ++i) ledger.record(sample_request("sql", kSampleStartUs + i * kSecondUs, 6, 4));
  }
  // Whether a process that backs up the ledger is killed at the fail point.
  bool is_killed_at(const char* point) const {
    const pid_t child = ::fork();
    if (child == 0) {
      arm_fail_point(std::string(point) + ":1:kill");
      back_up_ledger(file_, copy_);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

  TemporaryFolder folder_;
  const fs::path file_ = folder_ / "ledger.db", copy_ = folder_ / "copy.db";
  std::string message_, hint_;
};

// What cp would lose: the rows are in the -wal only, and the writer holds the file open.
TEST_F(BackupTest, CopiesWhatTheWalHolds) {
  Ledger ledger(options_for(file_));
  ledger.flush();  // the writer's first round ends by emptying the WAL, which must not hold our rows by then
  for (int i = 0; i < 200; ++i) ledger.record(sample_request("sql", kSampleStartUs + i * kSecondUs, 6, 4));
  ledger.flush();
  ASSERT_GT(fs::file_size(file_.string() + "-wal"), 0U);
  const LedgerBackup made = back_up_ledger(file_, copy_);
  EXPECT_EQ(made.requests, 200);
  EXPECT_EQ(made.bytes, fs::file_size(copy_));
  EXPECT_EQ(rows(copy_), 200);
  EXPECT_EQ(fs::status(copy_).permissions() & fs::perms::mask, fs::perms(0600));
  for (const char* suffix : {".part", ".part-wal", ".part-journal"}) {
    EXPECT_FALSE(fs::exists(copy_.string() + suffix)) << suffix;
  }
  ReportQuery query;
  query.kind = ReportKind::kTopics;
  query.database = copy_;
  EXPECT_THAT(render_report(query), HasSubstr("sql"));
  const Ledger again(options_for(copy_));  // a service can go on from it
}

TEST_F(BackupTest, CopiesAreWholeWhileTheServiceWrites) {
  Ledger ledger(options_for(file_));
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (std::int64_t i = 0; !over; ++i) {
      ledger.record(sample_request("sql", kSampleStartUs + i * kSecondUs, 6, 4));
      ledger.flush();
    }
  });
  std::int64_t before = 0;
  for (int i = 0; i < 5; ++i) {
    const fs::path copy = folder_ / ("copy" + std::to_string(i));
    const LedgerBackup made = back_up_ledger(file_, copy);
    EXPECT_GE(made.requests, before);
    EXPECT_EQ(rows(copy), made.requests);
    before = made.requests;
  }
  over = true;
  writer.join();
}

TEST_F(BackupTest, NothingIsReplacedAndNothingIsLeftBehind) {
  { Ledger ledger(options_for(file_)); }
  std::ofstream(copy_) << "precious";
  EXPECT_EQ(refused(file_, copy_), ErrorCode::kConflict);
  EXPECT_EQ(fs::file_size(copy_), 8U);
  fs::remove(copy_);
  fs::create_symlink(folder_ / "elsewhere", copy_);  // dangling
  EXPECT_EQ(refused(file_, copy_), ErrorCode::kConflict);
  fs::remove(copy_);
  std::ofstream(copy_.string() + ".part") << "another backup";
  EXPECT_EQ(refused(file_, copy_), ErrorCode::kConflict);
  EXPECT_THAT(message_, HasSubstr(".part"));
  EXPECT_TRUE(fs::exists(copy_.string() + ".part")) << "not ours to remove";
  fs::remove(copy_.string() + ".part");
  EXPECT_EQ(refused(folder_ / "none.db", copy_), ErrorCode::kNotFound);
  EXPECT_EQ(refused(file_, folder_ / "no" / "such" / "folder"), ErrorCode::kIo);
  for (const char* point : {"backup.copy:1:enospc", "backup.fsync:1:enospc", "backup.rename:1:enospc"}) {
    arm_fail_point(point);
    EXPECT_EQ(refused(file_, copy_), ErrorCode::kIo) << point;
    EXPECT_FALSE(fs::exists(copy_)) << point;
    EXPECT_FALSE(fs::exists(copy_.string() + ".part")) << point;
  }
}

// A copy called ledger.db-wal was taken for the log of writes by the next start, and overwritten.
TEST_F(BackupTest, NoFileOfTheLedgerIsACopy) {
  { Ledger ledger(options_for(file_)); }
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    EXPECT_EQ(refused(file_, file_.string() + suffix), ErrorCode::kInvalidArgument) << suffix;
    EXPECT_THAT(message_, HasSubstr("--out"));
  }
}

TEST_F(BackupTest, RefusesWhatIsNoLedgerAndWhatIsDamaged) {
  { Database(folder_ / "theirs.db", Database::Mode::kReadWrite).execute("CREATE TABLE theirs (x)"); }
  EXPECT_EQ(refused(folder_ / "theirs.db", copy_), ErrorCode::kInvalidArgument);
  std::ofstream(folder_ / "text.db") << "no database at all, but long enough to have a header of a hundred bytes or so "
                                        "as SQLite would want to see it";
  EXPECT_EQ(refused(folder_ / "text.db", copy_), ErrorCode::kDataLoss);
  {
    Ledger ledger(options_for(file_));
    for (int i = 0; i < 2000; ++i) ledger.record(sample_request("sql", kSampleStartUs + i * kSecondUs, 6, 4));
  }
  const auto middle = static_cast<std::streamoff>(fs::file_size(file_) / 2 / 4096 * 4096);
  testing::overwrite(file_, middle, std::string(8192, '\x5A'));
  EXPECT_EQ(refused(file_, copy_), ErrorCode::kDataLoss) << message_;
  EXPECT_FALSE(fs::exists(copy_));
  // Bug: it named its own copy.db.part, which is gone by then, and told to move that away.
  EXPECT_THAT(message_, HasSubstr(file_.string() + " is damaged"));
  EXPECT_THAT(message_ + hint_, Not(HasSubstr(".part")));
}

// Bug: `ledger backup --db /etc/passwd` told to move that file away.
TEST_F(BackupTest, AFileThatIsNoDatabaseStaysWhereItIs) {
  for (const std::string& text : {std::string(200, 'x'), "SQLite forma" + std::string(200, '\0')}) {
    std::ofstream(folder_ / "text.db") << text;
    EXPECT_EQ(refused(folder_ / "text.db", copy_), ErrorCode::kDataLoss);
    EXPECT_EQ(message_, (folder_ / "text.db").string() + " is no SQLite database");
    EXPECT_THAT(hint_, HasSubstr("name a ledger"));
    EXPECT_THAT(hint_, Not(HasSubstr("mv ")));
  }
  EXPECT_EQ(refused(folder_.path(), copy_), ErrorCode::kInvalidArgument);
  EXPECT_THAT(message_, HasSubstr("is a directory, not a ledger"));
}

TEST_F(BackupTest, KilledAtAnyPointTheCopyIsWholeOrNotThere) {
  record_fifty();
  for (const char* point : {"backup.copy", "backup.fsync", "backup.rename"}) {
    ASSERT_TRUE(is_killed_at(point)) << point;
    EXPECT_FALSE(fs::exists(copy_)) << point;
    for (const char* suffix : {".part", ".part-journal", ".part-wal", ".part-shm"}) fs::remove(copy_.string() + suffix);
  }
  EXPECT_EQ(back_up_ledger(file_, copy_).requests, 50);
}

// Bug: after Ctrl-C or a kill, copy.db.part stood in the way of every later backup.
TEST_F(BackupTest, WhatAKilledBackupLeftIsReplaced) {
  record_fifty();
  const fs::path part = copy_.string() + ".part";
  for (const char* point : {"backup.copy", "backup.fsync", "backup.rename"}) {
    ASSERT_TRUE(is_killed_at(point)) << point;
    ASSERT_TRUE(fs::exists(part)) << point;
    std::ofstream(part.string() + "-journal") << "of the killed one";
    EXPECT_EQ(back_up_ledger(file_, copy_).requests, 50) << point;
    EXPECT_EQ(rows(copy_), 50) << point;
    for (const char* suffix : {"", "-journal", "-wal", "-shm"}) EXPECT_FALSE(fs::exists(part.string() + suffix));
    fs::remove(copy_);
  }
}

TEST_F(BackupTest, ThePartOfAnotherBackupOrProgramStays) {
  { Ledger ledger(options_for(file_)); }
  const fs::path part = copy_.string() + ".part", elsewhere = folder_ / "elsewhere";
  {
    const FileHandle other(::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    struct flock lock {};
    lock.l_type = F_WRLCK;
    ASSERT_EQ(::fcntl(other.get(), F_OFD_SETLK, &lock), 0);
    EXPECT_EQ(refused(file_, copy_), ErrorCode::kConflict);
    EXPECT_THAT(hint_, HasSubstr("another backup runs"));
    EXPECT_TRUE(fs::exists(part));
  }
  fs::create_hard_link(part, elsewhere);
  EXPECT_EQ(refused(file_, copy_), ErrorCode::kConflict) << "another name of it is not ours to empty";
  fs::remove(part);
  fs::create_symlink(elsewhere, part);
  EXPECT_EQ(refused(file_, copy_), ErrorCode::kConflict);
  EXPECT_TRUE(fs::is_symlink(fs::symlink_status(part)));
}

}  // namespace
}  // namespace slip
