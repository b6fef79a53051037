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
#include "kernels/thread_pool.h"

namespace slip {

// A plain Llama's float32 weights in the order of a trainer's parameters, and where their gradients are added up.
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

// The forward pass of packed sequences up to the final norm, and its gradients, by hand and with the kernels that
// serve: what TorchDraft does with automatic differentiation, in half the time and without a tensor that is allocated
// in between. `products` is what the matrices are multiplied in; sums, norms, softmax and gradients are float32. The
// product with the vocabulary is the caller's. Threads: one owner.
class CpuDraft {
 public:
  CpuDraft(const ModelConfig& config, Dtype products, int threads);
  ~CpuDraft();

  // [Σ wanted, hidden] after the final norm, valid until the next call. `through_context` as in TorchDraft::hidden.
  // REQUIRES: gradients to be there if backward() follows.
  std::span<const float> hidden(const TrainedWeights& weights, const PackedSequences& input, bool through_context);
  // Adds the gradients of what the last hidden() made, from the loss's with respect to it [Σ wanted, hidden].
  void backward(const TrainedWeights& weights, std::span<const float> slope);

  std::size_t bytes() const;  // of all buffers, which grow to the largest input

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
