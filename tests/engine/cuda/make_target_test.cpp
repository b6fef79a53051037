// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/make_target.h"

#include <gtest/gtest.h>

#include "tests/engine/models/embedded_target.h"
#include "tests/engine/models/plain_decode.h"
#include "tests/kernels/cuda/host_queue.h"

namespace slip {
namespace {

TEST(MakeTarget, RunsWhereItIsToldTo) {
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
  EXPECT_TRUE(on_device.verifier->verifies_on_device({}));
  EXPECT_FALSE(on_cpu.verifier->verifies_on_device({}));
}

}  // namespace
}  // namespace slip
