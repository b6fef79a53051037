// SPDX-License-Identifier: Apache-2.0
#include "common/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <filesystem>
#include <fstream>

#include "common/error.h"
#include "common/fail_point.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string name = (fs::temp_directory_path() / "slipstream-file-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~FileTest() override {
    arm_fail_point("");
    fs::remove_all(folder_);
  }
  template <class Action>
  static ErrorCode code_of(Action action) {
    try {
      action();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  }

  fs::path folder_;
};

TEST_F(FileTest, ReplaceThenReadGivesTheContentBack) {
  const std::string content("a\0b\n", 4);
  replace_file(folder_ / "x", "first", "test");
  replace_file(folder_ / "x", content, "test");
  EXPECT_EQ(read_file(folder_ / "x", 100), content);
  EXPECT_EQ(fs::status(folder_ / "x").permissions() & fs::perms::mask, fs::perms(0600));
  EXPECT_FALSE(fs::exists(folder_ / "x.tmp"));
}

TEST_F(FileTest, AReplacementThatFailsLeavesTheOldContent) {
  replace_file(folder_ / "x", "old", "test");
  for (const char* point : {"test.write", "test.fsync", "test.rename"}) {
    arm_fail_point(std::string(point) + ":1:enospc");
    EXPECT_THROW(replace_file(folder_ / "x", "new", "test"), Error) << point;
    EXPECT_EQ(read_file(folder_ / "x", 100), "old") << point;
  }
}

TEST_F(FileTest, ReplaceDoesNotFollowAPlantedLink) {
  replace_file(folder_ / "victim", "untouched", "test");
  fs::create_symlink(folder_ / "victim", folder_ / "x.tmp");
  EXPECT_THROW(replace_file(folder_ / "x", "content", "test"), Error);
  EXPECT_EQ(read_file(folder_ / "victim", 100), "untouched");
}

TEST_F(FileTest, ReadRefusesByCode) {
  replace_file(folder_ / "x", "four", "test");
  EXPECT_EQ(code_of([&] { read_file(folder_ / "x", 3); }), ErrorCode::kTooLarge);
  EXPECT_EQ(code_of([&] { read_file(folder_ / "none", 3); }), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { read_file(folder_, 3); }), ErrorCode::kInvalidArgument);
}

TEST_F(FileTest, ReadDoesNotWaitForAPipe) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(code_of([&] { read_file(folder_ / "pipe", 3); }), ErrorCode::kInvalidArgument);
}

TEST_F(FileTest, PrivateDirectoryIsMadeAndAccepted) {
  ensure_private_directory(folder_ / "a" / "b");
  EXPECT_EQ(fs::status(folder_ / "a" / "b").permissions() & fs::perms::mask, fs::perms(0700));
  EXPECT_NO_THROW(ensure_private_directory(folder_ / "a" / "b"));
}

TEST_F(FileTest, PrivateDirectoryRefusesWhatOthersCanChange) {
  fs::create_directory(folder_ / "open");
  fs::permissions(folder_ / "open", fs::perms(0770));
  EXPECT_EQ(code_of([&] { ensure_private_directory(folder_ / "open"); }), ErrorCode::kPermission);
  fs::create_directory_symlink(folder_, folder_ / "link");
  EXPECT_EQ(code_of([&] { ensure_private_directory(folder_ / "link"); }), ErrorCode::kPermission);
  std::ofstream(folder_ / "file") << "x";
  EXPECT_EQ(code_of([&] { ensure_private_directory(folder_ / "file"); }), ErrorCode::kPermission);
}

TEST_F(FileTest, HandleClosesOnceAndMoves) {
  const int fd = ::open("/dev/null", O_RDONLY);
  {
    FileHandle first(fd);
    FileHandle second(std::move(first));
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): moved from means empty
    EXPECT_EQ(second.get(), fd);
  }
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
}

}  // namespace
}  // namespace slip
