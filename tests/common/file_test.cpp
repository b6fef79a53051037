// SPDX-License-Identifier: Apache-2.0
#include "common/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "common/error.h"
#include "common/fail_point.h"
#include "common/log.h"
#include "tests/common/patience.h"

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

  static fs::perms mode_of(const fs::path& path) { return fs::status(path).permissions() & fs::perms::mask; }
  std::ptrdiff_t n_entries() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

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
    EXPECT_EQ(n_entries(), 1) << point << " leaves a temporary file";
  }
}

// A start on a full disk said "Input/output error" of the healthy source.
TEST_F(FileTest, ACopyThatFailsNamesTheFileThatCannotBeWritten) {
  const auto from = folder_ / "from", to = folder_ / "none" / "to";
  replace_file(from, "new", "test");
  copy_durably(from, folder_ / "copy");
  EXPECT_EQ(read_file(folder_ / "copy", 100), "new");
  try {
    copy_durably(from, to);
    FAIL() << "copied into no folder";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(error.message().find(to.string()), std::string::npos) << error.message();
  }
}

// Regression: a draft of more than 1 GiB could not be copied, so a rollback to it did not survive a restart.
TEST_F(FileTest, AFileOfAnySizeIsCopiedInParts) {
  const auto from = folder_ / "from", to = folder_ / "to";
  replace_file(from, std::string((std::size_t{2} << 20) + 5, 'x'), "test");
  copy_durably(from, to);
  EXPECT_EQ(read_file(to, std::uint64_t{4} << 20), read_file(from, std::uint64_t{4} << 20));

  fs::resize_file(from, (std::uint64_t{1} << 30) + 1);  // takes no room on the disk
  arm_fail_point("copy.write:3:enospc");                // nor does its copy
  EXPECT_EQ(code_of([&] { copy_durably(from, to); }), ErrorCode::kIo) << "the third part is written";
  EXPECT_EQ(fs::file_size(to), (std::uint64_t{2} << 20) + 5) << "as it was";
  EXPECT_EQ(n_entries(), 2);
}

// A full disk was "cannot write lock" or "cannot write replay.compact", without the file.
TEST_F(FileTest, AWriteThatFailsNamesTheOpenFile) {
  const FileHandle full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  try {
    write_all(full.get(), std::as_bytes(std::span("x", 1)), "lock");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "cannot write /dev/full: No space left on device");
  }
  std::ofstream(folder_ / "file") << "x";
  const FileHandle closed_to_writes(::open((folder_ / "file").c_str(), O_RDONLY | O_CLOEXEC));
  try {
    write_all(closed_to_writes.get(), std::as_bytes(std::span("x", 1)), "lock");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find((folder_ / "file").string()), std::string::npos) << error.message();
  }
}

// A report to a file took others' permission to read it away.
TEST_F(FileTest, AnOutputFileKeepsItsMode) {
  write_output_file(folder_ / "x", "first");
  EXPECT_EQ(mode_of(folder_ / "x"), fs::perms(0600)) << "a new one";
  fs::permissions(folder_ / "x", fs::perms(0644));
  write_output_file(folder_ / "x", "second");
  EXPECT_EQ(read_file(folder_ / "x", 100), "second");
  EXPECT_EQ(mode_of(folder_ / "x"), fs::perms(0644));
  EXPECT_EQ(n_entries(), 1);
}

// The temporary file beside it has a longer name, which no file system takes.
TEST_F(FileTest, AnOutputFileMayHaveTheLongestName) {
  const std::string name(255, 'n');
  for (const char* content : {"first", "second"}) {
    write_output_file(folder_ / name, content);
    EXPECT_EQ(read_file(folder_ / name, 100), content);
  }
  EXPECT_EQ(n_entries(), 1);
}

// It was renamed over the link, the FIFO or the device.
TEST_F(FileTest, OutputIsWrittenIntoWhatIsNoRegularFile) {
  replace_file(folder_ / "far", "a longer text than the next", "test");
  fs::permissions(folder_ / "far", fs::perms(0640));
  fs::create_symlink("far", folder_ / "link");
  write_output_file(folder_ / "link", "through");
  EXPECT_TRUE(fs::is_symlink(fs::symlink_status(folder_ / "link")));
  EXPECT_EQ(read_file(folder_ / "far", 100), "through");
  EXPECT_EQ(mode_of(folder_ / "far"), fs::perms(0640));
  fs::create_symlink("new", folder_ / "dangling");
  write_output_file(folder_ / "dangling", "made");
  EXPECT_EQ(read_file(folder_ / "new", 100), "made");

  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const FileHandle reader(::open((folder_ / "pipe").c_str(), O_RDONLY | O_NONBLOCK));
  write_output_file(folder_ / "pipe", "to a reader");
  std::array<char, 64> read{};
  EXPECT_EQ(::read(reader.get(), read.data(), read.size()), 11);
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));

  write_output_file("/dev/null", "nothing");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  fs::create_symlink("/dev/full", folder_ / "full");
  EXPECT_EQ(code_of([&] { write_output_file(folder_ / "full", "text"); }), ErrorCode::kIo);
  EXPECT_TRUE(fs::is_symlink(fs::symlink_status(folder_ / "full")));
}

// It waited for a reader without a word.
TEST_F(FileTest, AFifoThatNobodyReadsIsReported) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  LogOptions options;
  options.file = folder_ / "log";
  set_log(options);
  std::string got;
  std::thread reader([&] {
    const auto said = [&] {
      std::ifstream log(folder_ / "log");
      const std::string text{std::istreambuf_iterator<char>(log), {}};
      return text.find("pipe is a FIFO without a reader") != std::string::npos;
    };
    for (int i = 0; i < 2000 * testing::kPatience && !said(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(said());
    std::ifstream pipe(folder_ / "pipe");
    got.assign(std::istreambuf_iterator<char>(pipe), {});
  });
  write_output_file(folder_ / "pipe", "content");
  reader.join();
  set_log({});
  EXPECT_EQ(got, "content");
}

TEST_F(FileTest, AnOutputWithOtherNamesIsWrittenUnderAll) {
  replace_file(folder_ / "x", "old", "test");
  fs::create_hard_link(folder_ / "x", folder_ / "y");
  write_output_file(folder_ / "x", "new");
  EXPECT_EQ(read_file(folder_ / "y", 100), "new");
}

TEST_F(FileTest, AnOutputThatFailsLeavesWhatWasThereAndNothingElse) {
  write_output_file(folder_ / "x", "old");
  replace_file(folder_ / "x.tmp", "the user's own", "test");
  for (const char* point : {"output.write", "output.fsync", "output.rename"}) {
    arm_fail_point(std::string(point) + ":1:enospc");
    EXPECT_EQ(code_of([&] { write_output_file(folder_ / "x", "new"); }), ErrorCode::kIo) << point;
    EXPECT_EQ(read_file(folder_ / "x", 100), "old") << point;
    EXPECT_EQ(n_entries(), 2) << point;
  }
  arm_fail_point("");
  EXPECT_EQ(read_file(folder_ / "x.tmp", 100), "the user's own");
  EXPECT_EQ(code_of([&] { write_output_file(folder_, "new"); }), ErrorCode::kIo) << "a folder";
  EXPECT_EQ(code_of([&] { write_output_file(folder_ / "none" / "x", "new"); }), ErrorCode::kIo);
  try {
    write_output_file(folder_ / "none" / "x", "new");
  } catch (const Error& error) {
    EXPECT_NE(error.message().find((folder_ / "none" / "x").string()), std::string::npos) << error.message();
  }
}

TEST_F(FileTest, WhatTheStandardLibrarySaysOfAPathBecomesAnErrorThatNamesIt) {
  fs::create_symlink("loop", folder_ / "loop");
  try {
    const bool there = fs::exists(folder_ / "loop");
    FAIL() << there;
  } catch (const fs::filesystem_error& fault) {
    const Error error = io_error(fault);
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_EQ(error.message(), "cannot use " + (folder_ / "loop").string() + ": Too many levels of symbolic links");
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

// Such a configuration was taken for an empty one.
TEST_F(FileTest, WhatSaysThatItIsEmptyIsReadToItsEnd) {
  const std::string status = read_file("/proc/self/status", 1 << 20);
  EXPECT_NE(status.find("Pid:"), std::string::npos);
  EXPECT_EQ(code_of([] { read_file("/proc/self/status", 10); }), ErrorCode::kTooLarge);
  EXPECT_EQ(code_of([] { read_file("/proc/self/mem", 10); }), ErrorCode::kIo);
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

// Bug: a key file of /tmp or /dev/null was told to run chmod 600 on it.
TEST_F(FileTest, ASecretThatIsNoRegularFileIsNotToldToChangeItsMode) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0644), 0);
  for (const fs::path& path : {folder_, folder_ / "pipe", fs::path("/dev/null")}) {
    try {
      require_private_file(path, "TLS key file", "server.tls_key");
      ADD_FAILURE() << path << " holds no key";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(error.message(), "the TLS key file " + path.string() + " is not a regular file");
      EXPECT_EQ(error.hint(), "");
      EXPECT_EQ(error.param(), "server.tls_key");
    }
  }
  replace_file(folder_ / "key", "secret", "test");
  EXPECT_NO_THROW(require_private_file(folder_ / "key", "TLS key file", "server.tls_key"));
  fs::permissions(folder_ / "key", fs::perms(0640));
  EXPECT_EQ(code_of([&] { require_private_file(folder_ / "key", "TLS key file", "server.tls_key"); }),
            ErrorCode::kPermission);
}

// Bug: a data directory of /tmp was told to run chmod 700 /tmp.
TEST_F(FileTest, ADirectoryThatAllShareStaysAsItIs) {
  fs::create_directory(folder_ / "shared");
  fs::permissions(folder_ / "shared", fs::perms(01777));
  try {
    require_private_directory(folder_ / "shared");
    ADD_FAILURE() << "anyone may write there";
  } catch (const Error& error) {
    EXPECT_EQ(error.hint(), "choose a new directory in it");
  }
}

TEST_F(FileTest, AFileIsTheSameUnderAnotherNameAndAnotherFileIsNotUnderItsOwn) {
  const fs::path file = folder_ / "file", moved = folder_ / "moved";
  std::ofstream(file) << "x";
  const FileHandle open(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  const auto ours = identity_of(open.get());
  ASSERT_TRUE(ours);
  EXPECT_EQ(identity_at(file), ours);
  fs::rename(file, moved);
  EXPECT_EQ(identity_at(moved), ours);
  EXPECT_FALSE(identity_at(file));
  fs::create_symlink(moved, file);
  EXPECT_NE(identity_at(file), ours);
  fs::remove(file);
  std::ofstream(file) << "x";
  EXPECT_NE(identity_at(file), ours);
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
