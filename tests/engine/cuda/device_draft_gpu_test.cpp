// SPDX-License-Identifier: Apache-2.0
// The draft loop launched on a GPU: gives the tokens of single passes on the same device, before and after a swap that
// needs no new capture, and when drafts share the loop.
#include "engine/cuda/device_worker.h"
#include "kernels/cuda/stream_queue.h"
#include "tests/engine/cuda/draft_loops.h"
#include "tests/engine/tiny_draft.h"
#include "tests/kernels/cuda/gpu_test.h"

namespace slip {
namespace {

using testing::tiny_draft;
using testing::tiny_draft_config;

using GpuDraft = kernels::cuda::GpuTest;

TEST_F(GpuDraft, EveryChainIsWhatPassesOneByOneDrawBeforeAndAfterASwap) {
  const auto first = tiny_draft(tiny_draft_config(testing::kDraftVocab), 1);
  const auto second = tiny_draft(tiny_draft_config(testing::kDraftVocab), 2);
  const std::shared_ptr<kernels::cuda::DeviceQueue> queue = kernels::cuda::open_device();
  testing::Loop<kernels::cuda::DeviceQueue> loop(queue, *first);
  loop.load(*first, 0);
  loop.load(*second, 1);
  const auto asked = testing::different_ones();
  const std::vector<std::vector<int>> rounds{
      {0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1}, {0, 1, 0, 1, 1, 0}, {1, 0, 1, 0, 0, 1}, {0, 0, 0, 0, 0, 0}};
  for (const auto& weight_slots : rounds) {
    loop.draw(weight_slots, asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      DeviceWorker alone(queue, weight_slots[i] == 0 ? *first : *second, 64, 64, 8);
      EXPECT_EQ(testing::tokens_of(loop.draft, i, asked[i].depth), testing::one_by_one(alone, asked[i]).tokens)
          << "weight slot " << weight_slots[i] << ", chain " << i;
    }
  }
}

}  // namespace
}  // namespace slip
