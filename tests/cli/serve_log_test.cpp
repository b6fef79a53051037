// SPDX-License-Identifier: Apache-2.0
// The log of the built program, as whoever reads it meets it, or does not.
#include <sys/resource.h>

#include <array>

#include "common/file.h"
#include "tests/cli/serve_fixture.h"

namespace slip {
namespace {

using ServeLogTest = ServeTest;

// 302 chats at level debug filled the pipe, and then nothing answered any more, SIGTERM included: each thread that
// logged waited for a reader who did not read.
TEST_F(ServeLogTest, AReaderWhoStallsStopsNeitherAnswersNorTheEnd) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const int room = ::fcntl(ends[1], F_GETPIPE_SZ);
  std::ofstream(folder_ / "c.toml") << "[log]\nlevel = \"debug\"\n";
  auto arguments = usual();
  arguments.insert(arguments.end(), {"-c", (folder_ / "c.toml").string()});
  Program program(folder_, arguments, {}, nullptr, ends[1]);
  const FileHandle reader(ends[0]);
  ::close(ends[1]);
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  const std::string id(120, 'x');
  for (std::size_t logged = 0; logged < 2 * static_cast<std::size_t>(room); logged += id.size()) {
    ASSERT_EQ(ask(port, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + id + "\r\n\r\n").status, 200)
        << "after " << logged << " bytes of log";
  }
  EXPECT_EQ(ask(port, chat_bytes("What is 12 + 30?", 8)).status, 200);
  program.signal(SIGUSR1);  // opens the log anew
  EXPECT_NE(get(port, "/metrics").body.find("slipstream:dropped_total{what=\"log_lines\"} 0"), std::string::npos)
      << "fewer lines than may wait";
  for (int i = 0; i < 20; ++i) program.signal(SIGHUP);  // each reload waits for a second; the stop waited for all
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(program.stop(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - before, testing::kPatience * std::chrono::seconds(8));
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 1) << "it saved before it ended";
}

bool allow_few_files() {
  const rlimit few{200, 200};
  return ::setrlimit(RLIMIT_NOFILE, &few) == 0;
}

TEST_F(ServeLogTest, AFatalErrorStandsBehindWhatWasLogged) {
  auto arguments = usual();
  arguments.insert(arguments.end(), {"--host", "0.0.0.0"});
  Program program(folder_, arguments, {}, allow_few_files);
  EXPECT_EQ(program.wait(), 1);
  const std::string err = program.err();
  const auto warning = err.find("files open, fewer than"), fault = err.find("slipstream: ");
  ASSERT_NE(warning, std::string::npos) << err;
  ASSERT_NE(fault, std::string::npos) << err;
  EXPECT_LT(warning, fault) << err;
}

}  // namespace
}  // namespace slip
