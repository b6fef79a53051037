// SPDX-License-Identifier: Apache-2.0
// Tested through the trainer, since LibTorch's headers stay out of tests.
#include "distill/trainer/draft_trainer.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace slip
