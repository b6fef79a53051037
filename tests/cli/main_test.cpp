// SPDX-License-Identifier: Apache-2.0
// The built program as a shell starts it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/checkpoints/temporary_folder.h"
#include "tests/common/damage.h"
#include "tests/common/patience.h"

namespace slip {
namespace {

const std::string kProgram = std::string(SLIPSTREAM_BINARY_DIR) + "/slipstream";

struct Ended {
  int status = -1;
  std::string said;  // on both outputs
};

Ended run(const std::string& command) {
  Ended ended;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::array<char, 512> text{};
  while (std::fgets(text.data(), text.size(), pipe) != nullptr) ended.said += text.data();
  ended.status = WEXITSTATUS(::pclose(pipe));
  return ended;
}

// A path's control characters reached the terminal, which obeys them.
TEST(Main, AnErrorWritesNoControlCharacters) {
  const auto [status, said] = run(kProgram + " inspect 'no\x1b]0;title\x07'");
  EXPECT_EQ(status, 2);
  EXPECT_EQ(said.find('\x1b'), std::string::npos) << said;
  EXPECT_NE(said.find("there is nothing at no\\x1b]0;title\\x07"), std::string::npos) << said;
}

const std::filesystem::path kDemo = std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo";

// Such a path was "internal error", status 70.
TEST(Main, ALoopOfLinksIsNamedByEveryCommand) {
  const testing::TemporaryFolder folder;
  const std::string loop = (folder.path() / "loop").string(), target = (kDemo / "target").string();
  std::filesystem::create_symlink("loop", loop);
  const std::string prompts = folder.write("prompts.jsonl", R"({"prompt":"x"})").string();
  for (const std::string& command :
       {"generate --max-tokens 1 --prompt x --target " + loop,
        "generate --max-tokens 1 --prompt x --target " + target + " --draft " + loop,
        "generate --max-tokens 1 --target " + target + " --prompts " + loop,
        "warmup --out " + (folder.path() / "out").string() + " --draft-config " + loop + " --target " + target +
            " --data " + prompts,
        "warmup --out " + loop + "/out --draft " + (kDemo / "draft").string() + " --target " + target + " --data " +
            prompts,
        "inspect " + loop, "report drift --db " + loop, "purge --data-dir " + loop + " --request x"}) {
    const auto [status, said] = run(kProgram + " " + command);
    EXPECT_EQ(status, 1) << command << "\n" << said;
    EXPECT_NE(said.find(loop), std::string::npos) << command << "\n" << said;
    EXPECT_NE(said.find("symbolic links"), std::string::npos) << command << "\n" << said;
  }
}

// Each answer was made of numbers that are none.
TEST(Main, WeightsThatAreNoNumbersAreRefusedByEveryCommandThatRunsThem) {
  const testing::TemporaryFolder folder;
  const auto target = folder.path() / "target";
  std::filesystem::copy(kDemo / "target", target);
  const auto weights = target / "model.safetensors";
  std::filesystem::permissions(weights, std::filesystem::perms::owner_all);
  testing::overwrite(weights, -2, "\xc0\x7f");  // a NaN in bfloat16
  const std::string prompts = folder.write("prompts.jsonl", R"({"prompt":"x"})").string();
  const auto out = folder.path() / "out";
  for (const std::string& command : {"generate --max-tokens 1 --prompt x --target " + target.string(),
                                     "warmup --out " + out.string() + " --draft " + (kDemo / "draft").string() +
                                         " --target " + target.string() + " --data " + prompts}) {
    const auto [status, said] = run(kProgram + " " + command);
    EXPECT_EQ(status, 1) << command << "\n" << said;
    EXPECT_NE(said.find(target.string()), std::string::npos) << command << "\n" << said;
    EXPECT_NE(said.find("not a number"), std::string::npos) << command << "\n" << said;
  }
  EXPECT_FALSE(std::filesystem::exists(out));
}

// It was "internal error", status 70. No thread starts whose stack is larger than the address space.
TEST(Main, AThreadThatCannotStartIsReportedWithAHint) {
  rlimit stack{};
  ASSERT_EQ(::getrlimit(RLIMIT_STACK, &stack), 0);
  if (stack.rlim_max != RLIM_INFINITY) GTEST_SKIP() << "the limit of a stack cannot be raised here";
  const auto [status, said] =
      run("bash -c 'ulimit -S -s 1099511627776 && exec " + kProgram + " generate --target " + SLIPSTREAM_SOURCE_DIR +
          "/checkpoints/demo/target --threads 2 --max-tokens 1 --prompt x'");
  EXPECT_EQ(status, 1) << said;
  EXPECT_NE(said.find("cannot start another thread: Resource temporarily unavailable"), std::string::npos) << said;
  EXPECT_NE(said.find("HINT: "), std::string::npos) << said;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need an address space without a limit
// It ended by SIGABRT in a constructor of LibTorch, or by SIGSEGV in a new thread.
TEST(Main, TooFewAddressesAreReportedBeforeAnythingElse) {
  const std::string serve = kProgram + " serve --port 0 --check-config --target " + (kDemo / "target").string();
  for (const int mebibytes : {470, 520, 580}) {
    const auto [status, said] =
        run("bash -c 'ulimit -v " + std::to_string(mebibytes * 1024) + " && exec " + serve + "'");
    // 127: the loader finds no room; 0: smaller libraries leave enough. A signal would be 128 and more.
    EXPECT_TRUE(status == 0 || status == 1 || status == 127) << mebibytes << "\n" << said;
    EXPECT_EQ(said.find("leaves fewer than 256 MiB") != std::string::npos, status == 1) << mebibytes << "\n" << said;
  }
  // It ended by a signal, or was never ready and wrote jemalloc's message without end.
  for (const int mebibytes : {16, 64, 128, 256}) {
    const auto [status, said] =
        run("bash -c 'ulimit -d " + std::to_string(mebibytes * 1024) + " && exec " + serve + "'");
    EXPECT_EQ(status, 1) << mebibytes << "\n" << said;
    EXPECT_NE(said.find("leaves fewer than 256 MiB"), std::string::npos) << mebibytes << "\n" << said;
  }
  const auto enough = run("bash -c 'ulimit -v 2000000 && exec " + kProgram + " version'");
  EXPECT_EQ(enough.status, 0) << enough.said;
}

// It was "internal error" with thirty frames of LibTorch, status 70.
TEST(Main, TooLittleMemoryIsReportedWithAHint) {
  const testing::TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 16; ++i) rows += R"({"prompt":"Mira has )" + std::to_string(i) + "\"}\n";
  const std::string prompts = folder.write("prompts.jsonl", rows).string();
  const auto warm_up = [&](const std::string& shape) {
    return run("bash -c 'ulimit -v 3000000 && exec " + kProgram + " warmup --target " + (kDemo / "target").string() +
               " --draft-config " + folder.write("draft.toml", shape).string() + " --data " + prompts +
               " --max-tokens 2 --steps 1 --out " + (folder.path() / "out").string() + "'");
  };
  const auto [status, said] = warm_up("hidden = 1024\nlayers = 10\nffn = 4096\nheads = 16\n");
  EXPECT_EQ(status, 1) << said;
  EXPECT_NE(said.find("there is not enough memory"), std::string::npos) << said;
  EXPECT_EQ(said.find("frame #"), std::string::npos) << said;
  // What certainly does not fit is refused before the target has answered the prompts.
  const auto larger = warm_up("hidden = 2048\nlayers = 12\nffn = 8192\nheads = 16\n");
  EXPECT_EQ(larger.status, 2) << larger.said;
  EXPECT_NE(larger.said.find("takes 11.7 GB; this process may use 3.07 GB"), std::string::npos) << larger.said;
}
#endif

// A thread ended by SIGSEGV in attention.
TEST(Main, ASmallStackLimitEndsNoThread) {
  const std::string generate = kProgram + " generate --target " + (kDemo / "target").string() + " --draft " +
                               (kDemo / "draft").string() + " --prompt Hello --max-tokens 4'";
  const auto soft = run("bash -c 'ulimit -S -s 512 && exec " + generate);
  EXPECT_EQ(soft.status, 0) << soft.said;
#if !defined(__SANITIZE_ADDRESS__)  // which leaves room between variables
  const auto least = run("bash -c 'ulimit -s 2048 && exec " + generate);
  EXPECT_EQ(least.status, 0) << least.said;
#endif
  const auto hard = run("bash -c 'ulimit -s 1300 && exec " + generate);
  EXPECT_EQ(hard.status, 1) << hard.said;
  EXPECT_NE(hard.said.find("a stack of 1300 KiB, which is the limit here, is too small"), std::string::npos)
      << hard.said;
  EXPECT_NE(hard.said.find("ulimit -s 8192"), std::string::npos) << hard.said;
}

std::string status_of(pid_t pid, const std::string& field) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return line.substr(field.size());
  }
  return {};
}

// Whether a service is so far that both are ignored.
bool ignores_reloads(pid_t pid) {
  const std::string mask = status_of(pid, "SigIgn:\t");
  constexpr unsigned long kBoth = 1UL << (SIGHUP - 1) | 1UL << (SIGUSR1 - 1);
  return !mask.empty() && (std::stoul(mask, nullptr, 16) & kBoth) == kBoth;
}

// They ended a service that had not read its configuration yet. One that cannot write its configuration stays there.
TEST(Main, AServiceThatStartsIsNotEndedByReloads) {
  std::array<int, 2> full{};
  ASSERT_EQ(::pipe2(full.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const std::string filler(4096, 'x');
  while (::write(full[1], filler.data(), filler.size()) > 0) {
  }
  ::fcntl(full[1], F_SETFL, 0);
  const std::string config = std::string(SLIPSTREAM_SOURCE_DIR) + "/configs/default.toml";
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(full[1], STDOUT_FILENO);
    ::chdir(SLIPSTREAM_SOURCE_DIR);
    ::execl(kProgram.c_str(), "slipstream", "serve", "--check-config", "-c", config.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(full[1]);
  for (int i = 0; i < 2000 * testing::kPatience && !ignores_reloads(child); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(ignores_reloads(child));
  ::kill(child, SIGHUP);
  ::kill(child, SIGUSR1);
  ::fcntl(full[0], F_SETFL, 0);
  std::array<char, 4096> read{};
  while (::read(full[0], read.data(), read.size()) > 0) {
  }
  ::close(full[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace slip
