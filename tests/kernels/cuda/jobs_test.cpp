// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/jobs.h"

#include <gtest/gtest.h>

#include "tests/kernels/cuda/host_queue.h"

namespace slip::kernels::cuda {
namespace {

TEST(DeviceQueueDeathTest, ACopyIsNoPartOfAGraph) {
  HostQueue queue;
  const DeviceMemory<float> memory(queue, 4);
  const float value = 0;
  EXPECT_DEATH(queue.capture([&] { queue.copy_in(memory.get(), &value, sizeof value); }), "while jobs are captured");
}

TEST(DeviceQueue, WhatThrowsWhileItIsCapturedEndsTheCapture) {
  HostQueue queue;
  const DeviceMemory<float> memory(queue, 4);
  EXPECT_THROW(queue.capture([] { throw std::bad_alloc(); }), std::bad_alloc);
  const float value = 3;
  queue.copy_in(memory.get(), &value, sizeof value);
  EXPECT_EQ(*memory.get(), 3);
}

TEST(DeviceQueue, JobsWithoutRowsAreNotPut) {
  HostQueue queue;
  const float weight = 1;
  RmsNorm norm;
  norm.n = norm.x_stride = 1;
  norm.weight.data = &weight;
  queue.enqueue(norm, 0);
  EXPECT_EQ(queue.n_puts(), 0);
}

TEST(DeviceJobsDeathTest, WhatWouldReadOrWriteOutOfBoundsIsABug) {
  HostQueue queue;
  EXPECT_DEATH(queue.enqueue(Embed{}, 1), "an embedding has a width");
  EXPECT_DEATH(queue.enqueue(RmsNorm{}, 1), "has a width");
  EXPECT_DEATH(queue.enqueue(RotateAndStore{}, 1), "a cache has pages");
  EXPECT_DEATH(queue.enqueue(Matmul{}), "a product has a shape");
  EXPECT_DEATH(queue.enqueue(Attention{}, {1, 1, 1}), "a cache has pages");
  const std::uint16_t half = 0;
  Matmul pairs;
  pairs.n_rows = 1;
  pairs.n_out = 48;
  pairs.n_in = 16;
  pairs.weight.data = pairs.activations = &half;
  pairs.epilogue = Epilogue::kGateUp;
  EXPECT_DEATH(queue.enqueue(pairs), "whole tiles");
  MakeDistributions make;
  make.vocab = 10;
  make.stride = 9;
  EXPECT_DEATH(queue.enqueue(make, 1), "one after the other");
  Observe observe;
  observe.vocab = observe.stride = 10;
  observe.top_k = 11;
  EXPECT_DEATH(queue.enqueue(observe, 1), "keeps some of the vocabulary");
}

}  // namespace
}  // namespace slip::kernels::cuda
