// SPDX-License-Identifier: Apache-2.0
// The built program under a limit of its address space, as `ulimit -v` or a small container sets it.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <regex>
#include <thread>

#include "tests/cli/serve_fixture.h"

namespace slip {
namespace {

using testing::eventually;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMayLimit = false;  // a sanitizer reserves terabytes of addresses
#else
constexpr bool kMayLimit = true;
#endif

class ServeMemoryTest : public ServeTest {
 protected:
  // Leaves a program that listens so many bytes of addresses; how many it has depends on the machine's cores.
  static void leave(const Program& program, std::size_t bytes) {
    static const std::regex size("VmSize:\\s+([0-9]+) kB");
    std::smatch match;
    const std::string status = text_of("/proc/" + std::to_string(program.pid()) + "/status");
    ASSERT_TRUE(std::regex_search(status, match, size));
    const rlim_t most = (std::stoull(match[1]) << 10) + bytes;
    const rlimit limit{most, most};
    ASSERT_EQ(::prlimit(program.pid(), RLIMIT_AS, &limit, nullptr), 0);
  }
  static std::string tokenize_bytes(std::size_t n) {
    return post("/tokenize", R"({"return_token_strs":true,"prompt":")" + std::string(n, 'x') + R"("})");
  }
  static std::string detokenize_bytes(std::size_t n_tokens) {
    std::string body = R"({"tokens":[8)";
    for (std::size_t i = 1; i < n_tokens; ++i) body += ",8";
    return post("/detokenize", body + "]}");
  }
  static std::string post(const std::string& path, const std::string& body) {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }
};

// Bug: one such request ended the process, since freeing a JSON tree allocates.
TEST_F(ServeMemoryTest, LargeRequestsThatNobodyReadsEndNothing) {
  if (!kMayLimit) GTEST_SKIP();
  Program program(folder_, usual());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  leave(program, std::size_t{200} << 20);
  const std::string large = tokenize_bytes(std::size_t{4'000'000});
  std::array<int, 6> known_answers{200, 400, 413, 422, 429, 503};
  const int status = ask(port, large).status;
  EXPECT_NE(std::find(known_answers.begin(), known_answers.end(), status), known_answers.end()) << status;
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 12; ++i) {
      clients.push_back(std::make_unique<RawClient>(port));
      clients.back()->send(large);
    }
    EXPECT_EQ(get(port, "/healthz").status, 200);
  }
  EXPECT_TRUE(eventually([&] { return ask(port, chat_bytes("Hello", 4)).status == 200; })) << program.log();
  EXPECT_EQ(program.stop(), 0) << program.log();
}

// Bug: threads that had computed and never allocated, and memory that a thread keeps from call to call, ended the
// process when an answer needed them for the first time with nothing left.
TEST_F(ServeMemoryTest, TheFirstLargeAnswersBehindAFloodEndNothing) {
  if (!kMayLimit) GTEST_SKIP();
  Program program(folder_, usual());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  leave(program, std::size_t{200} << 20);
  const auto all_at_once = [&](const std::string& request) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 40; ++i) {
      threads.emplace_back([&] {
        try {
          ask(port, request);
        } catch (const std::exception&) {  // the connection was closed
        }
      });
    }
  };
  all_at_once(chat_bytes(std::string(4'000'000, 'x'), 2));
  all_at_once(tokenize_bytes(4'000'000));
  all_at_once(detokenize_bytes(1'000'000));
  all_at_once(chat_bytes("Hello", 100, R"(,"n":4,"ignore_eos":true,"logprobs":true,"top_logprobs":5)"));
  EXPECT_TRUE(eventually([&] { return ask(port, chat_bytes("Hello", 4)).status == 200; })) << program.log();
  EXPECT_EQ(program.stop(), 0) << program.log();
}

}  // namespace
}  // namespace slip
