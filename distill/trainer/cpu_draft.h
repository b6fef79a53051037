// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checkpoints/model_config.h"
#include "common/tensor_view.h"
#include "distill/trainer/packed_sequences.h"
#include "distill/trainer/pause_point.h"
#include "kernels/thread_pool.h"

namespace slip {

// A plain Llama's float32 weights in the order of a trainer's parameters, and the buffers in which their gradients
// accumulate.
struct TrainedWeights {
  struct Matrix {
    const float* value = nullptr;
    float* gradient = nullptr;  // null: no backward pass follows
  };
  struct Layer {
    Matrix attention_norm, q, k, v, out, ffn_norm, gate, up, down;
  };
  Matrix embedding;
  std::vector<Layer> layers;
  Matrix final_norm;
};

// The forward and backward pass of packed sequences up to the final norm, written by hand with the kernels that serve.
// It computes the same as TorchDraft with automatic differentiation, in half the time and without allocating tensors in
// between. `products` is the dtype of matrix products; sums, norms, softmax and gradients are float32. The caller does
// the product with the vocabulary. Threads: one owner.
class CpuDraft {
 public:
  CpuDraft(const ModelConfig& config, Dtype products, int threads);
  ~CpuDraft();

  // Returns [Σ wanted, hidden] after the final norm, valid until the next call. `through_context` as in
  // TorchDraft::hidden. REQUIRES: non-null gradients if backward() follows.
  std::span<const float> hidden(const TrainedWeights& weights, const PackedSequences& input, bool through_context,
                                const PausePoint& pause = {});
  // Adds the weights' gradients for the last hidden(). `slope` [Σ wanted, hidden] is the gradient of the loss with
  // respect to its result.
  void backward(const TrainedWeights& weights, std::span<const float> slope, const PausePoint& pause = {});

  std::size_t bytes() const;  // of all buffers, which grow to the largest input

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
