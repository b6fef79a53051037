// SPDX-License-Identifier: Apache-2.0
// The device as a queue does what its stand-in of the other tests does.
#include "kernels/cuda/stream_queue.h"

#include <numeric>

#include "tests/kernels/cuda/gpu_test.h"
#include "tests/kernels/cuda/host_queue.h"
#include "tests/kernels/kernel_cases.h"

namespace slip::kernels::cuda {
namespace {

using GpuQueue = GpuTest;

TEST_F(GpuQueue, CopiesInOrder) {
  const auto queue = open_device();
  const DeviceMemory<std::int32_t> memory(*queue, 64);
  const CopyMemory<std::int32_t> host(*queue, 64);
  std::iota(host.get(), host.get() + 64, 0);
  queue->copy_in(memory.get(), host.get(), 64 * sizeof(std::int32_t));
  queue->copy_blocks(memory.get() + 2, memory.get(), {2 * sizeof(std::int32_t), 16 * sizeof(std::int32_t), 4});
  std::vector<std::int32_t> back(64);
  queue->copy_out(back.data(), memory.get(), 64 * sizeof(std::int32_t));
  queue->wait();
  for (std::int32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(back[static_cast<std::size_t>(i)], i % 16 == 2 || i % 16 == 3 ? i - 2 : i);
  }
}

// One table of jobs through both queues: put, captured, and replayed after what they read has changed.
TEST_F(GpuQueue, ReplaysOnWhatStandsThereByThen) {
  const auto device = open_device();
  HostQueue host;
  std::vector<std::vector<float>> results;
  for (DeviceQueue* queue : {device.get(), static_cast<DeviceQueue*>(&host)}) {
    const DeviceMemory<float> x(*queue, 3 * 40), weight(*queue, 40), y(*queue, 3 * 40);
    const auto ones = std::vector<float>(40, 1.0F), first = random_floats(120, 1), second = random_floats(120, 2);
    queue->copy_in(weight.get(), ones.data(), 40 * sizeof(float));
    queue->copy_in(x.get(), first.data(), 120 * sizeof(float));
    const RmsNorm job{x.get(), 40, {weight.get()}, 40, 1e-5F, nullptr, y.get(), 40};
    const auto graph = queue->capture([&] { queue->enqueue(job, 3); });
    for (const auto& values : {first, second}) {
      queue->copy_in(x.get(), values.data(), 120 * sizeof(float));
      queue->replay(*graph);
      results.emplace_back(120);
      queue->copy_out(results.back().data(), y.get(), 120 * sizeof(float));
      queue->wait();
    }
  }
  EXPECT_TRUE(same_bits(results[0], results[2]));
  EXPECT_TRUE(same_bits(results[1], results[3]));
  EXPECT_FALSE(same_bits(results[0], results[1]));
}

TEST_F(GpuQueue, MoreMemoryThanThereIsIsAnErrorThatSaysWhatToDo) {
  const auto queue = open_device();
  try {
    queue->allocate(std::size_t{1} << 50);
    FAIL() << "a pebibyte";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
    EXPECT_FALSE(error.hint().empty());
  }
  const DeviceMemory<float> still_works(*queue, 8);
}

}  // namespace
}  // namespace slip::kernels::cuda
