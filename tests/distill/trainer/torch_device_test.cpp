// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/torch_device.h"

#include <gtest/gtest.h>

#include <string>

#include "common/error.h"

namespace slip {
namespace {

TEST(TorchDeviceTest, TheCpuIsAlwaysThere) {
  EXPECT_NO_THROW(check_training_device(TrainingDevice::kCpu));
}

TEST(TorchDeviceTest, ADeviceThatCannotTrainIsRefusedByTheKeyThatAsksForIt) {
  try {
    check_training_device(TrainingDevice::kCuda);
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kUnavailable);
    EXPECT_EQ(error.param(), "learning.device");
    EXPECT_TRUE(error.message().starts_with("learning.device = \"cuda\": ")) << error.message();
    EXPECT_FALSE(error.hint().empty());
    return;
  }
  GTEST_SKIP() << "this machine can train on its GPU";
}

// A line of LibTorch's own format would go past log.file and log.format.
TEST(TorchDeviceTest, WarningsOfLibTorchGoToTheLog) {
  const TorchDevice cpu(TrainingDevice::kCpu);
  ::testing::internal::CaptureStderr();
  {
    const TorchDevice::Turn turn(cpu);
    TORCH_WARN("no memory for a product");
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("Z warning learning: LibTorch says: no memory for a product\n"), std::string::npos) << said;
  EXPECT_EQ(said.find("[W"), std::string::npos) << said;
}

}  // namespace
}  // namespace slip
