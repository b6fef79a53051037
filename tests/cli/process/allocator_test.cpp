// SPDX-License-Identifier: Apache-2.0
// Memory grew with learning: what the learner's thread freed stayed in glibc's arena of it (issue 15: 644 MiB held for
// 82 in use after ten minutes of four topics).
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "common/thread_memory.h"
#include "distill/trainer/draft_trainer.h"
#include "tests/checkpoints/tiny_config.h"
#include "tests/common/address_limit.h"
#include "tests/distill/sample_records.h"

namespace slip {
namespace {

using testing::make_record;
using testing::TemporaryFolder;

constexpr int kTopics = 4, kStepsATurn = 2, kStepsARound = kTopics * kStepsATurn;
constexpr int kWarmSteps = 2 * kStepsARound, kSteps = kWarmSteps + 12 * kStepsARound;
constexpr double kMostGrowth = 40;  // MiB

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  long pages = 0, resident = 0;
  statm >> pages >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// The shipped draft's shape: its vocabulary makes matrices of 4 MiB.
ModelConfig shipped_shape() {
  return testing::tiny_config({.vocab_size = 8192,
                               .hidden_size = 128,
                               .intermediate_size = 352,
                               .n_layers = 2,
                               .n_heads = 4,
                               .max_positions = 1024});
}

// Topics take turns; each turn ends with an export and a save, each round with the loss of one trainer.
// Returns the growth of resident memory after the warm rounds, MiB.
double growth_of_learning() {
  const TemporaryFolder folder;
  TrainerOptions options;
  options.optimizer = OptimizerKind::kMuon;
  options.average_decay = 0.9;
  std::array<std::unique_ptr<DraftTrainer>, kTopics> trainers;
  std::array<std::shared_ptr<const ModelWeights>, kTopics> candidates;
  double warm = 0, most = 0;
  for (int step = 0; step < kSteps; ++step) {
    const auto topic = static_cast<std::size_t>(step / kStepsATurn % kTopics);
    if (!trainers[topic]) trainers[topic] = std::make_unique<DraftTrainer>(shipped_shape(), topic, options);
    const auto id = static_cast<std::uint64_t>(step);
    trainers[topic]->step(std::array{make_record(id, "sql", 40 + step * 37 % 300, 20 + step * 29 % 100, 8192)});
    if (step % kStepsATurn != kStepsATurn - 1) continue;
    candidates[topic] = trainers[topic]->weights(Dtype::kBFloat16);
    trainers[topic]->save(folder.path() / "state");
    if (step % kStepsARound == kStepsARound - 1)
      trainers[static_cast<std::size_t>(step / kStepsARound % kTopics)].reset();
    (step < kWarmSteps ? warm : most) = std::max(step < kWarmSteps ? warm : most, resident_mib());
  }
  return most - warm;
}

TEST(Allocator, MemoryOfLearningDoesNotGrow) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator keeps what is freed";
#endif
  double growth = 0;
  std::thread([&] { growth = growth_of_learning(); }).join();  // not the main thread: an arena of its own
  RecordProperty("growth_mib", std::to_string(growth));
  EXPECT_LT(growth, kMostGrowth);
}

// An address-space limit ended the service inside malloc() (SIGSEGV), where a thread that had not allocated before
// answered its first request.
TEST(AllocatorDeathTest, AThreadThatIsPreparedGetsNoMemoryInsteadOfEndingTheProcess) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own allocator";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has allocated next to nothing
  const auto allocate_without_room = [] {
    std::promise<void> prepared, limited;
    std::thread thread([&] {
      prepare_thread_memory();
      prepared.set_value();
      limited.get_future().wait();
      void* volatile large = std::malloc(std::size_t{64} << 20);
      std::_Exit(large == nullptr ? 0 : 3);
    });
    prepared.get_future().wait();
    testing::limit_addresses_to_those_in_use();
    limited.set_value();
    thread.join();
  };
  EXPECT_EXIT(allocate_without_room(), ::testing::ExitedWithCode(0), "");
}

// Frees 256 MiB on a thread that then allocates no more. Whether their addresses went back too within seconds.
bool freed_addresses_go_back() {
  constexpr std::size_t kBlocks = 256, kBytes = std::size_t{1} << 20;
  std::vector<std::unique_ptr<std::byte[]>> blocks;
  std::thread([&] {
    for (std::size_t i = 0; i < kBlocks; ++i) blocks.push_back(std::make_unique<std::byte[]>(kBytes));
  }).join();
  const std::size_t full = testing::address_bytes();
  blocks.clear();
  for (int i = 0; i < 100; ++i) {
    if (testing::address_bytes() + kBlocks / 2 * kBytes < full) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

// A flood under a limit of addresses or data left the service refusing chats for ever: what its threads had freed was
// kept for them alone.
TEST(AllocatorDeathTest, UnderALimitTheAddressesOfFreedMemoryGoBack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own allocator";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own, which starts under the limit
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &before), 0);
  const rlimit limit{rlim_t{1} << 40, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &limit), 0);
  EXPECT_EXIT(std::_Exit(freed_addresses_go_back() ? 0 : 1), ::testing::ExitedWithCode(0), "");
  ::setrlimit(RLIMIT_DATA, &before);
}

}  // namespace
}  // namespace slip
