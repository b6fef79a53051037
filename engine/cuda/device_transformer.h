// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "engine/cuda/device_step.h"
#include "engine/cuda/device_weights.h"

namespace slip {

// The forward pass of one model shape on a device. Same operations in the same order as Transformer::forward, and
// batch-invariant like it: no bit of a row depends on the shape of its pass. bfloat16 weights, activations and cache,
// float32 sums. Threads: those of the queue.
class DeviceTransformer {
 public:
  struct Bounds {
    std::int32_t max_rows = 0, max_logit_rows = 0;  // already rounded by row_capacity()
  };
  // Error{kTooLarge}.
  DeviceTransformer(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const ModelConfig& config, const Bounds& bounds);

  // Inputs and outputs of a pass, in device memory.
  struct Operands {
    const DeviceModel& model;
    const DeviceStep& step;
    const PagePool& cache;
    float* logits = nullptr;               // [shape.n_logit_rows, vocab]; null: not wanted
    const std::int32_t* tokens = nullptr;  // [n_rows of the step]; null: the step's own
    // Rows use the weight slots that the step was put with, and only logits of the step's own rows are written, [its
    // n_logit_rows, vocab]. Otherwise all rows use `model`.
    bool by_weight_slots = false;
  };
  // Enqueues a pass. `after_layer` is called as soon as a layer's jobs are enqueued. REQUIRES: the shape is within the
  // bounds, and the step was, or will be, put with it.
  void put(const Operands& operands, const DevicePassShape& shape,
           const std::function<void(std::int32_t layer)>& after_layer = {}) const;

  const ModelConfig& config() const { return config_; }
  const float* residual() const { return residual_.get(); }          // [n_rows, hidden] after the layer put last
  const float* final_hidden() const { return final_hidden_.get(); }  // [n_logit_rows, hidden] after the final norm

 private:
  struct Pass;
  void put_attention(const Pass& pass, std::int32_t layer) const;
  void put_ffn(const Pass& pass, std::int32_t layer) const;
  void put_head(const Pass& pass) const;
  kernels::cuda::Matmul product(const Pass& pass, const kernels::cuda::Weight<std::uint16_t>& weight,
                                const kernels::cuda::DeviceMemory<std::uint16_t>& from) const;
  void put_norm(const Pass& pass, const kernels::cuda::Weight<float>& weight) const;

  std::shared_ptr<kernels::cuda::DeviceQueue> queue_;
  ModelConfig config_;
  std::int64_t hidden_, query_width_, qkv_width_, ffn_;
  kernels::cuda::DeviceMemory<float> cos_, sin_;                      // [max_positions, head_dim / 2]
  kernels::cuda::DeviceMemory<float> residual_, qkv_, final_hidden_;  // [rows, width]
  kernels::cuda::DeviceMemory<float> partial_;                        // partial results of attention splits
  kernels::cuda::DeviceMemory<std::uint16_t> normed_, attended_, ffn_activations_, head_activations_;
};

}  // namespace slip
