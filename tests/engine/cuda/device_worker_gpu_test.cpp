// SPDX-License-Identifier: Apache-2.0
// The whole pass launched on a GPU: close to the result of its kernels' bodies on the host; a row's bits do not depend
// on the rest of its pass. Equality with the host's bits is not required, since the order of sums inside a tile of the
// matrix instruction is the machine's.
#include <cmath>

#include "engine/cuda/device_worker.h"
#include "kernels/cuda/stream_queue.h"
#include "tests/engine/cuda/device_bench.h"
#include "tests/engine/models/batch_step.h"
#include "tests/engine/models/embedded_target.h"
#include "tests/engine/models/formula_model.h"
#include "tests/kernels/cuda/gpu_test.h"

namespace slip {
namespace {

using testing::PlainSequence;
using testing::random_tokens;

using GpuWorker = kernels::cuda::GpuTest;

std::unique_ptr<DeviceWorker> on_device(const ModelWeights& weights) {
  return std::make_unique<DeviceWorker>(kernels::cuda::open_device(), weights, 128, 64, 64);
}

TEST_F(GpuWorker, EveryArchitectureIsNearTheHostsBodies) {
  for (const std::string& name : testing::architecture_names()) {
    const auto weights = testing::formula_weights(testing::architecture_golden(name)["config"], Dtype::kBFloat16);
    const auto worker = on_device(*weights);
    testing::DeviceBench host(*weights);
    PlainSequence launched(*worker), expected(host.worker);
    const auto prompt = random_tokens(40, 1, 96);
    const auto got = launched.feed_at_once(prompt, 40), want = expected.feed_at_once(prompt, 40);
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, std::abs(double{want[i]}));
      difference = std::max(difference, std::abs(double{want[i]} - got[i]));
    }
    EXPECT_LE(difference, 0x1p-7 * largest) << name;
  }
}

TEST_F(GpuWorker, ChunksBatchesAndGraphsDoNotShow) {
  const auto worker = on_device(*testing::embedded_target(Dtype::kBFloat16));
  const auto prompt = random_tokens(400, 1);
  PlainSequence whole(*worker);
  const auto expected = whole.feed(prompt, 128);
  for (const std::size_t chunk : {1, 5, 16, 64, 65}) {
    PlainSequence chunked(*worker);
    const auto& logits = chunked.feed(prompt, chunk);
    EXPECT_TRUE(testing::same_bits(logits.data(), expected.data(), expected.size())) << chunk;
  }
}

TEST_F(GpuWorker, TheEmbeddedTargetAnswersAsOnTheCpu) {
  const auto weights = testing::embedded_target(Dtype::kBFloat16);
  kernels::ThreadPool pool(2);
  LocalWorker cpu(weights, 64, 1, 16, pool);
  const auto worker = on_device(*weights);
  const auto prompt = random_tokens(12, 2);
  EXPECT_EQ(testing::plain_greedy(*worker, prompt, 5), testing::plain_greedy(cpu, prompt, 5));
}

}  // namespace
}  // namespace slip
