// SPDX-License-Identifier: Apache-2.0
#include "cli/target_worker.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/config/check_config.h"
#include "cli/load_model.h"
#include "cli/process/usable_memory.h"
#include "common/error.h"
#include "tests/engine/models/embedded_target.h"
#include "tests/engine/toy_target.h"
#include "tests/kernels/cuda/host_queue.h"

namespace slip::cli {
namespace {

TEST(TargetDevice, TheCpuNeedsNone) {
  EXPECT_EQ(open_target_device(Device::kCpu), nullptr);
}

// Without CUDA in the build, or without a device: each says which, and what to do next.
TEST(TargetDevice, WhereThereIsNoneTheErrorNamesTheNextStep) {
  try {
    open_target_device(Device::kCuda);
    GTEST_SKIP() << "this machine has one";
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kUnavailable);
    EXPECT_NE(error.message().find("CUDA"), std::string::npos) << error.message();
    EXPECT_NE(error.hint().find("device = \"cpu\""), std::string::npos) << error.hint();
    EXPECT_EQ(error.param(), "device");
  }
  ServeConfig config;
  config.target = testing::embedded_target_folder();
  config.device = Device::kCuda;
  const auto names_device = [](const Error& error) { return error.param() == "device"; };
  const auto faults = faults_of(config, "");
  EXPECT_EQ(std::count_if(faults.begin(), faults.end(), names_device), 1);
  config.device = Device::kCpu;
  const auto without = faults_of(config, "");
  EXPECT_EQ(std::count_if(without.begin(), without.end(), names_device), 0);
}

TEST(TargetDevice, IsReadFromItsName) {
  EXPECT_EQ(parse_device("cpu", Dtype::kFloat32), Device::kCpu);
  EXPECT_EQ(parse_device("cuda", Dtype::kBFloat16), Device::kCuda);
  EXPECT_THROW(parse_device("gpu", Dtype::kBFloat16), Error);
  EXPECT_THROW(parse_device("cuda", Dtype::kFloat32), Error);
}

TEST(TargetWorker, ACacheTakesAShareOfWhatIsLeft) {
  const auto weights = testing::embedded_target(Dtype::kBFloat16);
  const auto queue = std::make_shared<kernels::cuda::HostQueue>();
  const CacheRoom on_device = cache_room(queue, weights->bytes());
  EXPECT_EQ(on_device.at_most, queue->free_bytes() - weights->bytes());
  EXPECT_EQ(on_device.by_default, on_device.at_most / 2);
  EXPECT_EQ(cache_room(nullptr, weights->bytes()).at_most, usable_memory_bytes() - weights->bytes());
  EXPECT_EQ(cache_room(nullptr, std::uint64_t{1} << 60).at_most, 0U) << "weights that do not fit leave nothing";
}

TEST(TargetWorker, WithoutADraftPromptLookupProposesWhereItIsOn) {
  slip::testing::ToyWorker worker(slip::testing::ToyLanguage{});
  kernels::ThreadPool pool(1);
  const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 1, 2, 3, 4};
  SequenceRef sequence;
  sequence.tokens = tokens;
  sequence.prompt_tokens = 9;
  EngineOptions options;
  EXPECT_FALSE(make_proposer(nullptr, options, worker, pool)->drafts_for(sequence));
  options.prompt_lookup = true;
  const auto proposer = make_proposer(nullptr, options, worker, pool);
  ASSERT_TRUE(proposer->drafts_for(sequence));
  proposer->begin(sequence);
  ASSERT_FALSE(proposer->guesses(sequence).tokens.empty());
  EXPECT_EQ(proposer->guesses(sequence).tokens[0], 5);
}

}  // namespace
}  // namespace slip::cli
