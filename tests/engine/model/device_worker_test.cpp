// SPDX-License-Identifier: Apache-2.0
// The device's forward pass, its kernels' bodies run on the host: near the CPU's logits for every architecture, and a
// row's bits whatever it shares its pass with.
#include "engine/model/device_worker.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/model/batch_step.h"
#include "tests/engine/model/embedded_target.h"
#include "tests/engine/model/formula_model.h"
#include "tests/kernels/cuda/host_queue.h"

namespace slip {
namespace {

using kernels::cuda::HostQueue;
using testing::BatchStep;
using testing::embedded_target;
using testing::Part;
using testing::PlainSequence;
using testing::random_tokens;
using testing::same_bits;

// Of the largest logit. Both passes round weights, activations and the cache to bfloat16, each at its own places where
// the CPU's instruction class has no bfloat16 products: half an ulp in each of a few tens of roundings on the way.
constexpr double kLogits = 0x1p-8 * 8;

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(double{a[i]}));
    difference = std::max(difference, std::abs(double{a[i]} - b[i]));
    if (!std::isfinite(b[i])) return INFINITY;
  }
  return difference / largest;
}

struct Device {
  explicit Device(const ModelWeights& weights, std::int32_t max_rows = 128, std::int32_t max_logit_rows = 128)
      : worker(queue, weights, max_rows, max_logit_rows, 64) {}
  std::shared_ptr<HostQueue> queue = std::make_shared<HostQueue>();
  DeviceWorker worker;
};

std::vector<float> step_logits(Worker& worker, BatchStep& step, std::size_t n_rows) {
  step.run(worker);
  const auto vocabulary = static_cast<std::size_t>(worker.config().vocab_size);
  return {step.logits(0), step.logits(0) + n_rows * vocabulary};
}

class DeviceArchitectures : public ::testing::TestWithParam<std::string> {
 protected:
  static std::vector<std::int32_t> tokens(int n, unsigned seed) { return random_tokens(n, seed, 96); }
  std::shared_ptr<const ModelWeights> weights_ =
      testing::formula_weights(testing::architecture_golden(GetParam())["config"], Dtype::kBFloat16);
  Device device_{*weights_};
};

INSTANTIATE_TEST_SUITE_P(Models, DeviceArchitectures, ::testing::ValuesIn(testing::architecture_names()),
                         [](const auto& param) { return param.param; });

TEST_P(DeviceArchitectures, LogitsAreTheCpus) {
  kernels::ThreadPool pool(1);
  LocalWorker cpu(weights_, 128, 64, 64, pool);
  PlainSequence expected(cpu), got(device_.worker);
  const auto prompt = tokens(45, 1);
  const auto e = expected.feed_at_once(prompt, 45), g = got.feed_at_once(prompt, 45);
  std::printf("%g\n", largest_difference(e, g));
  EXPECT_LE(largest_difference(e, g), kLogits);
}

}  // namespace
}  // namespace slip
