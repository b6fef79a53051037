// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/models/transformer.h"
#include "engine/models/workspace_buffers.h"
#include "kernels/thread_pool.h"

namespace slip::bench {

// The matrix products of a step and nothing else, in their order, on its weights: no activation is converted, no gate
// multiplied.
class Products {
 public:
  Products(std::shared_ptr<const ModelWeights> weights, std::int32_t most_rows, kernels::ThreadPool& pool);
  // Of the `n_rows` rows, `n_logit_rows` go on to the vocabulary.
  void run(std::int32_t n_rows, std::int32_t n_logit_rows);

 private:
  void multiply(const kernels::PackedMatrix& weight, std::int32_t n_rows, std::vector<float>& y, bool accumulate);

  std::shared_ptr<const ModelWeights> weights_;
  kernels::ThreadPool& pool_;
  AlignedArray<std::byte> activations_;  // as many as any product takes
  std::vector<float> residual_, wide_;   // [most_rows, hidden], and of the other products
};

// Multiplications and additions of these products.
double product_operations(const ModelWeights& weights, std::int32_t n_rows, std::int32_t n_logit_rows);

}  // namespace slip::bench
