// SPDX-License-Identifier: Apache-2.0
#include "cli/target_worker.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/check_config.h"
#include "cli/load_model.h"
#include "common/error.h"
#include "engine/model/device_worker.h"
#include "tests/engine/model/embedded_target.h"
#include "tests/engine/model/plain_decode.h"
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

TEST(TargetWorker, RunsWhereItIsToldTo) {
  const auto weights = testing::embedded_target(Dtype::kBFloat16);
  kernels::ThreadPool pool(1);
  const auto queue = std::make_shared<kernels::cuda::HostQueue>();
  const Target on_device = make_target(queue, weights, {16, 2, 8}, pool);
  const Target on_cpu = make_target(nullptr, weights, {16, 2, 8}, pool);
  const std::vector<std::int32_t> prompt{7, 99, 1234};
  EXPECT_EQ(testing::plain_greedy(*on_device.worker, prompt, 2), testing::plain_greedy(*on_cpu.worker, prompt, 2));
  EXPECT_GT(queue->n_replays(), 0);
  EXPECT_EQ(on_device.worker->cache().n_pages(), 8);
  EXPECT_EQ(on_device.worker->max_logit_rows(), 2);
  EXPECT_TRUE(on_device.verifier->judges_on_device({}));
  EXPECT_FALSE(on_cpu.verifier->judges_on_device({}));
}

TEST(TargetWorker, ACacheTakesAShareOfWhatIsLeft) {
  const auto weights = testing::embedded_target(Dtype::kBFloat16);
  const auto queue = std::make_shared<kernels::cuda::HostQueue>();
  EXPECT_EQ(affordable_cache_bytes(queue, *weights), (queue->free_bytes() - weights->bytes()) / 2);
  EXPECT_GT(affordable_cache_bytes(nullptr, *weights), 0U);
}

}  // namespace
}  // namespace slip::cli
