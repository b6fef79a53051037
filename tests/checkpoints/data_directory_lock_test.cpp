// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/data_directory_lock.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "tests/checkpoints/store_sandbox.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

using DataDirectoryLockTest = StoreSandbox;

TEST_F(DataDirectoryLockTest, TheSecondIsToldThePidOfTheFirst) {
  const DataDirectoryLock first(folder_ / "data");
  EXPECT_EQ(fs::status(folder_ / "data").permissions() & fs::perms::mask, fs::perms(0700));
  EXPECT_EQ(fs::status(folder_ / "data" / "LOCK").permissions() & fs::perms::mask, fs::perms(0600));
  try {
    const DataDirectoryLock second(folder_ / "data");
    FAIL() << "two holders";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kConflict);
    EXPECT_THAT(error.message(), HasSubstr("process " + std::to_string(::getpid())));
  }
}

TEST_F(DataDirectoryLockTest, IsFreeAgainWhenTheHolderIsGone) {
  { const DataDirectoryLock lock(folder_ / "data"); }
  EXPECT_NO_THROW(DataDirectoryLock(folder_ / "data"));
}

TEST_F(DataDirectoryLockTest, IsFreeAgainWhenTheHolderWasKilled) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const DataDirectoryLock lock(folder_ / "data");
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(code_of([&] { DataDirectoryLock(folder_ / "data"); }), ErrorCode::kConflict);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_NO_THROW(DataDirectoryLock(folder_ / "data"));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(DataDirectoryLockTest, KnowsWhetherTheDirectoryIsStillItsOwn) {
  const fs::path data = folder_ / "data", away = folder_ / "away";
  const DataDirectoryLock lock(data);
  EXPECT_TRUE(lock.in_place());
  fs::rename(data, away);
  EXPECT_FALSE(lock.in_place()) << "moved";
  fs::create_directory(data);
  write(data / "LOCK", "");
  EXPECT_FALSE(lock.in_place()) << "replaced";
  fs::remove_all(data);
  fs::rename(away, data);
  EXPECT_TRUE(lock.in_place()) << "back";
  fs::remove_all(data);
  EXPECT_FALSE(lock.in_place()) << "deleted";
  fs::create_directory(data);
  write(data / "LOCK", "");
  EXPECT_FALSE(lock.in_place()) << "perhaps under the same inode numbers";
}

TEST_F(DataDirectoryLockTest, RefusesAFolderOthersCanWriteAndALinkedLock) {
  fs::create_directory(folder_ / "open");
  fs::permissions(folder_ / "open", fs::perms(0777));
  EXPECT_EQ(code_of([&] { DataDirectoryLock(folder_ / "open"); }), ErrorCode::kPermission);
  fs::create_directory(folder_ / "data");
  fs::permissions(folder_ / "data", fs::perms(0700));
  write(folder_ / "victim", "content");
  fs::create_symlink(folder_ / "victim", folder_ / "data" / "LOCK");
  EXPECT_TRUE(code_of([&] { DataDirectoryLock(folder_ / "data"); }));
  EXPECT_EQ(read(folder_ / "victim"), "content");
}

}  // namespace
}  // namespace slip
