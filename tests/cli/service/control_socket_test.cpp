// SPDX-License-Identifier: Apache-2.0
#include "cli/service/control_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "common/error.h"
#include "common/log.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/failing_allocations.h"

namespace slip::cli {
namespace {

TEST(ControlSocket, AnswersLineByLineAndIsPrivate) {
  const testing::TemporaryFolder folder;
  // Longer than a socket's address may be.
  const auto data = folder.path() / std::string(120, 'd');
  std::filesystem::create_directory(data);
  std::ofstream(data / "control.sock") << "what a crash left";
  {
    const ControlSocket socket(data, [](const std::string& line) { return "heard " + line; });
    struct stat status {};
    ASSERT_EQ(::lstat((data / "control.sock").c_str(), &status), 0);
    EXPECT_TRUE(S_ISSOCK(status.st_mode));
    EXPECT_EQ(status.st_mode & 077, 0U);
    EXPECT_EQ(ask_service(data, "one"), "heard one");
    EXPECT_EQ(ask_service(data, std::string(60'000, 'x')).size(), 60'006U);
    EXPECT_EQ(ask_service(data, ""), "heard ");
  }
  EXPECT_FALSE(std::filesystem::exists(data / "control.sock"));
}

TEST(ControlSocket, NobodyThereIsUnavailable) {
  const testing::TemporaryFolder folder;
  try {
    ask_service(folder.path(), "one");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    // Bug: it said to wait, which is of no use once somebody has deleted the socket of a running service.
    EXPECT_THAT(error.message(), ::testing::HasSubstr("control.sock: No such file"));
    EXPECT_THAT(error.hint(), ::testing::HasSubstr("control.sock was deleted, a restart"));
  }
}

// Bug: a purge waited for a stopped service without end. The second client finds the backlog full: its connect waits.
TEST(ControlSocket, AServiceThatDoesNotAnswerIsUnavailableAfterAWhile) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "control.sock").string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const FileHandle stopped(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(stopped.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(stopped.get(), 0), 0);
  for (int client = 0; client < 3; ++client) {
    try {
      ask_service(folder.path(), "one", std::chrono::milliseconds(20));
      ADD_FAILURE() << "nobody answers";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
      EXPECT_THAT(error.message(), ::testing::HasSubstr("no answer came within"));
      EXPECT_THAT(error.hint(), ::testing::HasSubstr("may still do it"));
    }
  }
}

// Bug: std::system_error left the constructor, so a service that could run without this channel ended. No thread has a
// stack as large as all addresses.
TEST(ControlSocket, WithoutAThreadItIsAnErrorAndNoSocketIsLeft) {
  const testing::TemporaryFolder folder;
  pthread_attr_t usual{}, too_large{};
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_attr_init(&too_large), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&too_large, std::size_t{1} << 47), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&too_large), 0);
  EXPECT_THROW(ControlSocket(folder.path(), [](const std::string& line) { return line; }), Error);
  EXPECT_EQ(::pthread_setattr_default_np(&usual), 0);
  ::pthread_attr_destroy(&too_large);
  ::pthread_attr_destroy(&usual);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "control.sock"));
}

// Connected to the control socket of `folder`, and silent. Calls `before_connecting` once its own socket exists.
FileHandle peer_of(
    const testing::TemporaryFolder& folder, const std::function<void()>& before_connecting = [] {}) {
  const std::string path = (folder.path() / "control.sock").string();
  EXPECT_LT(path.size(), sizeof(sockaddr_un::sun_path));
  FileHandle peer(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  before_connecting();
  EXPECT_EQ(::connect(peer.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return peer;
}

// A command waited five seconds for each silent client before it. A silent client must lose its place sooner or later.
TEST(ControlSocket, SilentPeersHoldUpNobody) {
  const testing::TemporaryFolder folder;
  const ControlSocket socket(folder.path(), [](const std::string&) { return std::string("fine"); });
  std::vector<FileHandle> silent;
  for (std::size_t i = 0; i < ControlSocket::kMostPeers + 8; ++i) silent.push_back(peer_of(folder));
  ::send(silent.back().get(), "half a", 6, MSG_NOSIGNAL);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(ask_service(folder.path(), "one"), "fine");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, ControlSocket::kPeerPatience);
  char byte = 0;
  EXPECT_EQ(::recv(silent.back().get(), &byte, 1, 0), 0) << "closed once its time is over";
}

// Bug: while the process had no descriptor left, the socket's thread took a whole core. The limit leaves poll() the two
// that it asks about. This process holds the lowest ones, so none is free for the peer.
TEST(ControlSocket, WaitsForADescriptorWithoutSpinning) {
  const testing::TemporaryFolder folder;
  const ControlSocket socket(folder.path(), [](const std::string&) { return std::string("fine"); });
  EXPECT_EQ(ask_service(folder.path(), "one"), "fine");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{2, before.rlim_max};
  const FileHandle peer = peer_of(folder, [&] { ::setrlimit(RLIMIT_NOFILE, &none); });
  const std::clock_t begun = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const std::clock_t worked = std::clock() - begun;
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_LT(worked, CLOCKS_PER_SEC / 10) << "processor time of all threads";
  EXPECT_EQ(ask_service(folder.path(), "two"), "fine");
}

// A command that there is no memory for gets no answer, and the next one does.
TEST(ControlSocket, EachAllocationThatFailsCostsOneAnswerAtMost) {
  const testing::TemporaryFolder folder;
  const ::slip::testing::Spared own;
  set_log_level(LogLevel::kOff);
  const ControlSocket socket(folder.path(), [](const std::string& line) { return line + std::string(100, '!'); });
  const std::string line(100, 'x'), right = line + std::string(100, '!');
  bool failed = true;
  int n = 1;
  for (; failed; ++n) {
    ASSERT_EQ(ask_service(folder.path(), line), right);
    ::slip::testing::until_failure = n;
    std::string reply;
    try {
      reply = ask_service(folder.path(), line);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo) << error.message();
    }
    failed = ::slip::testing::until_failure.exchange(0) <= 0;
    EXPECT_TRUE(reply == right || (failed && reply.empty())) << reply;
  }
  set_log_level(LogLevel::kInfo);
  EXPECT_GT(n, 3);
}

// Whoever hangs up or says too much costs the next one nothing.
TEST(ControlSocket, PeersThatMisbehaveAreDropped) {
  const testing::TemporaryFolder folder;
  const ControlSocket socket(folder.path(), [](const std::string&) { return std::string("fine"); });
  for (const std::size_t n_bytes : {std::size_t{0}, std::size_t{3}, std::size_t{1} << 20}) {
    const FileHandle peer = peer_of(folder);
    const std::string text(n_bytes, 'x');
    ::send(peer.get(), text.data(), text.size(), MSG_NOSIGNAL);
    ::shutdown(peer.get(), SHUT_WR);
  }
  EXPECT_EQ(ask_service(folder.path(), "one"), "fine");
}

}  // namespace
}  // namespace slip::cli
