// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>

#include "engine/cuda/device_transformer.h"

namespace slip {

// Pages of keys and values in a queue's device memory, in the layout of DeviceKv.
class DevicePages final : public PageMemory {
 public:
  // Error{kTooLarge}.
  DevicePages(std::shared_ptr<kernels::cuda::DeviceQueue> queue, std::size_t bytes);
  std::byte* data() const override { return memory_.get(); }
  void copy_slot(const kernels::PagedKv& first, int n_layers, PageSlot from, PageSlot to) override;

 private:
  std::shared_ptr<kernels::cuda::DeviceQueue> queue_;
  kernels::cuda::DeviceMemory<std::byte> memory_;
};

// A target on a device. Steps of at most kMostCapturedRows rows are captured once per shape (DevicePassShape), then
// replayed. Weights, activations and cache are bfloat16. A step has at most max_logit_rows() sequences: the engine runs
// fewer. A device failure ends the step (DeviceFailure) and leaves the tokens cached before. Threads: the engine
// thread.
class DeviceWorker final : public Worker {
 public:
  // Copies the weights, which may be freed afterwards. Error{kTooLarge} when the device has no room for them, for
  // n_pages pages or for the rows.
  DeviceWorker(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const ModelWeights& weights, std::int32_t max_rows,
               std::int32_t max_logit_rows, std::int32_t n_pages);

  void run(const StepInput& input, StepOutput& output) override;
  // run() without the final wait: jobs enqueued after it find the wanted logits in logits(); outputs are valid when the
  // queue is done. REQUIRES: the queue is done with the previous pass.
  DevicePassShape put(const StepInput& input, const StepOutput& output);
  // In device memory, [n_logit_rows of the shape put last, vocab].
  const float* logits() const { return logits_.get(); }
  kernels::cuda::DeviceQueue& queue() const { return *queue_; }
  const ModelConfig& config() const override { return transformer_.config(); }
  PagePool& cache() override { return cache_; }
  std::int32_t max_rows() const override { return max_rows_; }
  std::int32_t max_logit_rows() const override { return max_logit_rows_; }
  std::size_t weight_bytes() const { return weights_.bytes(); }

 private:
  void put_pass(const StepInput& input, const StepOutput& output, const DevicePassShape& shape);
  void put_tap(const StepInput& input, const StepOutput& output, std::int32_t layer);
  void copy_rows_out(const TensorView& to, const float* from, std::int64_t n_rows, std::int64_t width);

  std::shared_ptr<kernels::cuda::DeviceQueue> queue_;
  std::int32_t max_rows_, max_logit_rows_;
  DeviceWeights weights_;
  DeviceTransformer transformer_;
  PagePool cache_;
  DeviceStep step_;
  kernels::cuda::DeviceMemory<float> logits_;  // [max_logit_rows, vocab]
  std::map<DevicePassShape, std::unique_ptr<kernels::cuda::DeviceGraph>> graphs_;
};

}  // namespace slip
