// SPDX-License-Identifier: Apache-2.0
// The service's sockets: none of them connects out, and it runs without IPv6 and with few descriptors.
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/cli/serve_fixture.h"

namespace slip {
namespace {

// From here on the kernel kills this process (SIGSYS) at the first connect() or Internet datagram socket.
bool forbid_outbound_connections() {
  constexpr auto kKill = SECCOMP_RET_KILL_PROCESS;
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 7, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 7),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),  // without SOCK_NONBLOCK and SOCK_CLOEXEC
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kKill),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST_F(ServeTest, TheServiceConnectsToNobody) {
  Program program(folder_, usual(), {}, forbid_outbound_connections);
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  for (int i = 0; i < 12; ++i) {  // enough for a training step and what it saves
    ASSERT_EQ(ask(port, chat_bytes("What is 12 + " + std::to_string(i) + "?", 24)).status, 200);
  }
  EXPECT_EQ(get(port, "/metrics").status, 200);
  EXPECT_EQ(program.stop(), 0) << program.log();
}

TEST_F(ServeTest, NegativeAConnectionOrADatagramSocketWouldHaveBeenSeen) {
  for (const bool connecting : {true, false}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(9);
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      if (!forbid_outbound_connections()) ::_exit(126);
      if (connecting) {
        ::connect(listening, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
      } else {
        ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      }
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << status;
  }
}

// As on a kernel that was booted without IPv6.
bool take_ipv6_away() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST_F(ServeTest, ItNeedsNoIpv6) {
  Program program(folder_, usual(), {}, take_ipv6_away);
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  EXPECT_EQ(ask(port, chat_bytes("What is 12 + 30?", 8)).status, 200);
  EXPECT_EQ(program.stop(), 0) << program.log();
}

TEST_F(ServeTest, AnIpv6AddressWithoutIpv6IsAnErrorThatNamesIt) {
  auto arguments = usual();
  arguments.insert(arguments.end(), {"--host", "::1"});
  Program program(folder_, arguments, {}, take_ipv6_away);
  EXPECT_EQ(program.wait(), 1);
  EXPECT_NE(program.err().find("cannot listen on ::1:"), std::string::npos) << program.err();
  EXPECT_NE(program.err().find("HINT: choose a --host"), std::string::npos) << program.err();
}

bool allow_64_files() {
  const rlimit few{64, 64};
  return ::setrlimit(RLIMIT_NOFILE, &few) == 0;
}

// 1,024 connections were taken whatever the limit of open files was: 100 silent ones under a limit of 64 left no
// descriptor for a probe.
TEST_F(ServeTest, ProbesComeThroughSilenceUnderALowLimitOfFiles) {
  Program program(folder_, usual(), {}, allow_64_files);
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(std::make_unique<RawClient>(port));
  for (const char* probe : {"/healthz", "/readyz"}) EXPECT_EQ(get(port, probe).status, 200) << probe;
  EXPECT_EQ(ask(port, chat_bytes("What is 12 + 30?", 8)).status, 200) << "the longest idle one makes room";
  EXPECT_EQ(program.stop(), 0) << program.log();
  const std::string log = program.log(), said = "at most 16 connections are taken, not server.max_connections = 1024";
  ASSERT_NE(log.find(said), std::string::npos) << log;
  EXPECT_EQ(log.find(said), log.rfind(said)) << "said once:\n" << log;
}

}  // namespace
}  // namespace slip
