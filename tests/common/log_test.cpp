// SPDX-License-Identifier: Apache-2.0
#include "common/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "common/file.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/common/patience.h"
#include "tests/failing_allocations.h"

namespace slip {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr std::chrono::seconds kPatience{20 * testing::kPatience};  // a test that hangs fails instead

class Log : public ::testing::Test {
 protected:
  void TearDown() override { set_log({}); }
};

std::string text_of(const std::filesystem::path& file) {
  return read_file(file, 1 << 20);
}

template <class Action>
std::string written_by(Action action) {
  ::testing::internal::CaptureStderr();
  action();
  return ::testing::internal::GetCapturedStderr();
}

TEST_F(Log, WritesOneUtcLineToStandardError) {
  ::testing::internal::CaptureStdout();
  const auto line = written_by([] { log_warn("disk nearly full"); });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(line, MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+.[0-9]+Z warning disk nearly full\n"));
}

TEST_F(Log, EscapesControlsSoThatNoLineIsForged) {
  const auto line = written_by([] { log_info("a\n2026 error forged\x1b[2J\x7f"); });
  EXPECT_THAT(line, HasSubstr("a\\x0a2026 error forged\\x1b[2J\\x7f\n"));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

// A line about exhausted memory was put together by its caller, whom std::bad_alloc then ended.
TEST_F(Log, ALineThereIsNoMemoryForIsDroppedAndCounted) {
  const std::uint64_t before = log_lines_dropped();
  int n_failed = 0;
  const auto text = written_by([&] {
    n_failed = testing::fail_each([] {
      log_parts(LogLevel::kError, {"a part that is longer than a string's own buffer", ": ", "and another one"});
    });
  });
  const std::string line = "error a part that is longer than a string's own buffer: and another one\n";
  std::uint64_t n_written = 0;
  for (auto at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) ++n_written;
  EXPECT_GT(n_failed, 2);
  EXPECT_GT(n_written, 0U);
  EXPECT_GT(log_lines_dropped(), before);
  EXPECT_EQ(log_lines_dropped() - before + n_written, static_cast<std::uint64_t>(n_failed + 1));
  EXPECT_THAT(text, HasSubstr(" lines of the log were lost"));
}

TEST_F(Log, EscapesC1ControlsAndKeepsOtherText) {
  EXPECT_THAT(written_by([] {
                log_info(
                    "\xC2\x9B"
                    "31m \xC2\xA0é日本 {} %n");
              }),
              HasSubstr("\\x9b31m \xC2\xA0é日本 {} %n"));
}

TEST_F(Log, LevelsBelowAreSilent) {
  EXPECT_EQ(written_by([] { log_debug("detail"); }), "");
  set_log_level(LogLevel::kError);
  EXPECT_EQ(written_by([] { log_warn("quiet"); }), "");
  EXPECT_THAT(written_by([] { log_error("loud"); }), HasSubstr("loud"));
  set_log_level(LogLevel::kOff);
  EXPECT_EQ(written_by([] { log_error("nothing"); }), "");
}

TEST_F(Log, JsonLinesHoldAnyText) {
  set_log({.format = LogFormat::kJson});
  const auto line = written_by([] { log_warn("say \"hi\"\\\n\x1b\xC2\x9B \xFF\xC0\x80 日本 \xED\xA0\x80"); });
  EXPECT_THAT(line, MatchesRegex("\\{\"time\":\"[0-9TZ:.-]+\",\"level\":\"warning\",\"message\":\".*\"\\}\n"));
  EXPECT_THAT(line, HasSubstr("say \\\"hi\\\"\\\\\\u000a\\u001b\\u009b \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD 日本 "));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST_F(Log, AFileIsAppendedToAndReopenedAfterARotation) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "service.log", moved = folder.path() / "service.log.1";
  set_log({.file = file});
  EXPECT_EQ(written_by([] { log_info("one"); }), "") << "nothing goes to standard error";
  std::filesystem::rename(file, moved);
  log_info("two");
  EXPECT_THAT(text_of(moved), HasSubstr("info two\n")) << "until it is reopened";
  reopen_log();
  log_info("three");
  EXPECT_THAT(text_of(file), MatchesRegex("[^\n]*info three\n"));
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms(0600));
  set_log({.file = file});
  log_info("four");
  EXPECT_THAT(text_of(file), HasSubstr("three"));
  EXPECT_THAT(text_of(file), HasSubstr("four"));
}

TEST_F(Log, AFileThatCannotBeOpenedChangesNothing) {
  EXPECT_THROW(set_log({.level = LogLevel::kOff, .file = "/nowhere/at/all.log"}), Error);
  EXPECT_THAT(written_by([] { log_info("still here"); }), HasSubstr("still here"));
}

// The learner at idle priority could lose the processor inside the library's lock, and the engine's thread waited for
// it. Here a thread stays inside: it writes to a pipe that is full.
TEST_F(Log, NobodyWaitsForAThreadThatIsWriting) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
  // Of a line that is longer than the pipe, what there is room for goes in: then its thread is inside.
  const auto size = static_cast<std::size_t>(::fcntl(ends[1], F_GETPIPE_SZ));
  const std::string filler(size / 2, '.'), rest(size, '!');
  ASSERT_EQ(::write(ends[1], filler.data(), filler.size()), static_cast<ssize_t>(filler.size()));
  const int error_output = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  std::thread stuck([&rest] { log_info("the learner's" + rest); });
  const auto is_inside = [&] {
    int n_bytes = 0;
    return ::ioctl(ends[0], FIONREAD, &n_bytes) == 0 && n_bytes > static_cast<int>(filler.size());
  };
  for (int i = 0; i < 1000 * testing::kPatience && !is_inside(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  auto engine = std::async(std::launch::async, [] {
    for (int i = 0; i < 100; ++i) log_warn("the engine's");
  });
  const auto state = engine.wait_for(kPatience);
  std::string text;
  while (std::count(text.begin(), text.end(), '\n') < 101) {
    std::array<char, 4096> part{};
    const auto n = ::read(ends[0], part.data(), part.size());
    ASSERT_GT(n, 0);
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  stuck.join();
  engine.wait();
  ::dup2(error_output, STDERR_FILENO);
  for (const int fd : {error_output, ends[0], ends[1]}) ::close(fd);
  EXPECT_EQ(state, std::future_status::ready) << "the engine waited";
  EXPECT_THAT(text, HasSubstr("the learner's"));
}

// A pipe as standard error that is full from the start.
class FullPipe {
 public:
  FullPipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) std::abort();
    ::fcntl(ends_[1], F_SETPIPE_SZ, 4096);
    const std::string filler(static_cast<std::size_t>(::fcntl(ends_[1], F_GETPIPE_SZ)), '.');
    if (::write(ends_[1], filler.data(), filler.size()) < 0) std::abort();
    error_output_ = ::dup(STDERR_FILENO);
    ::dup2(ends_[1], STDERR_FILENO);
  }
  ~FullPipe() {
    ::dup2(error_output_, STDERR_FILENO);
    for (const int fd : {error_output_, ends_[0], ends_[1]}) ::close(fd);
  }
  std::string read_lines(std::ptrdiff_t n_lines) const {
    std::string all;
    while (n_lines > 0) {
      std::array<char, 65536> part{};
      const auto n = ::read(ends_[0], part.data(), part.size());
      if (n <= 0) break;
      all.append(part.data(), static_cast<std::size_t>(n));
      n_lines -= std::count(part.data(), part.data() + n, '\n');
    }
    return all;
  }

 private:
  std::array<int, 2> ends_{};
  int error_output_ = -1;
};

// A log pipe whose reader stalled stopped every thread that logged, I/O threads and the one that takes SIGTERM
// included.
TEST_F(Log, AStalledReaderHoldsUpNobodyAndWhatWasLostIsLogged) {
  constexpr int kLines = 10'000;
  const FullPipe pipe;
  const std::uint64_t before = log_lines_dropped();
  std::optional<BackgroundLog> background(std::in_place);
  auto serving = std::async(std::launch::async, [] {
    for (int i = 0; i < kLines; ++i) log_warn("line " + std::to_string(i) + " ends");
  });
  ASSERT_EQ(serving.wait_for(kPatience), std::future_status::ready) << "the log was waited for";
  EXPECT_FALSE(flush_log(std::chrono::milliseconds(1)));
  const std::uint64_t dropped = log_lines_dropped() - before;
  EXPECT_GE(dropped, kLines - 2U * 4096);
  EXPECT_LE(dropped, kLines - 4096U);
  const std::string text = pipe.read_lines(kLines - static_cast<std::ptrdiff_t>(dropped) + 1);
  EXPECT_THAT(text, HasSubstr("warning line 0 ends\n"));
  EXPECT_THAT(text, HasSubstr("warning " + std::to_string(dropped) + " lines of the log were lost"));
  EXPECT_TRUE(flush_log(kPatience));
  background.reset();
}

TEST_F(Log, LongLinesWaitWithinABoundToo) {
  const FullPipe pipe;
  const std::uint64_t before = log_lines_dropped();
  std::optional<BackgroundLog> background(std::in_place);
  const std::string prompt(std::size_t{4} << 20, 'x');
  for (int i = 0; i < 20; ++i) log_info(prompt);
  EXPECT_EQ(log_lines_dropped() - before, 20U - 7U) << "7 lines of a little over 4 MiB are within 32 MiB";
  pipe.read_lines(7 + 1);
  EXPECT_TRUE(flush_log(kPatience));
  background.reset();
}

TEST_F(Log, InTheBackgroundLinesKeepTheirOrderAndTheirFile) {
  const testing::TemporaryFolder folder;
  const auto first = folder.path() / "first.log", second = folder.path() / "second.log";
  std::string expected;
  {
    const BackgroundLog background;
    set_log({.file = first});
    const auto log_lines = [](int from, int to) {
      for (int i = from; i < to; ++i) log_info("line " + std::to_string(i));
    };
    log_lines(0, 990);
    EXPECT_TRUE(flush_log(kPatience));  // set_log and the end wait for a second only, which is enough for a few lines
    log_lines(990, 1000);
    set_log({.file = second});
    log_info("elsewhere");
    EXPECT_TRUE(flush_log(kPatience));
  }
  const std::string text = text_of(first);
  std::size_t at = 0;
  for (int i = 0; i < 1000 && at != std::string::npos; ++i) at = text.find("line " + std::to_string(i) + "\n", at);
  EXPECT_NE(at, std::string::npos) << text.substr(0, 1000);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1000);
  EXPECT_THAT(text_of(second), MatchesRegex("[^\n]*info elsewhere\n"));
  log_info("after it");
  EXPECT_THAT(text_of(second), HasSubstr("info after it\n")) << "written by the caller again";
}

TEST_F(Log, LinesThatTheDiskRefusesAreCountedAndLogged) {
  const testing::TemporaryFolder folder;
  const std::uint64_t before = log_lines_dropped();
  set_log({.file = "/dev/full"});
  log_info("one");
  log_info("two");
  EXPECT_EQ(log_lines_dropped() - before, 2U);
  set_log({.file = folder.path() / "service.log"});
  log_info("three");
  EXPECT_THAT(text_of(folder.path() / "service.log"), HasSubstr("warning 2 lines of the log were lost"));
}

TEST_F(Log, LinesOfManyThreadsAreWholeAndNoneIsMissing) {
  constexpr int kThreads = 4, kEach = 500;
  const std::string text = written_by([] {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < kEach; ++i) log_info("line " + std::to_string(t * kEach + i) + " ends");
      });
    }
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), kThreads * kEach);
  for (int i = 0; i < kThreads * kEach; ++i) {
    EXPECT_THAT(text, HasSubstr("info line " + std::to_string(i) + " ends\n"));
  }
}

TEST_F(Log, LevelNames) {
  EXPECT_STREQ(log_level_name(LogLevel::kWarn), "warn");
  EXPECT_EQ(parse_log_level("warn"), LogLevel::kWarn);
  EXPECT_EQ(parse_log_level("off"), LogLevel::kOff);
  EXPECT_THROW(parse_log_level("loud"), Error);
}

}  // namespace
}  // namespace slip
