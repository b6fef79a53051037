// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/models/transformer.h"
#include "engine/models/workspace_buffers.h"
#include "kernels/thread_pool.h"

namespace slip::bench {

// The matrix products of a step alone, in order, on its weights. Excludes conversion of activations and gating.
class Products {
 public:
  Products(std::shared_ptr<const ModelWeights> weights, std::int32_t most_rows, kernels::ThreadPool& pool);
  // `n_logit_rows` of the `n_rows` rows are multiplied with the vocabulary.
  void run(std::int32_t n_rows, std::int32_t n_logit_rows);

 private:
  void multiply(const kernels::PackedMatrix& weight, std::int32_t n_rows, std::vector<float>& y, bool accumulate);

  std::shared_ptr<const ModelWeights> weights_;
  kernels::ThreadPool& pool_;
  AlignedArray<std::byte> activations_;  // the largest that any product needs
  std::vector<float> residual_, wide_;   // [most_rows, hidden]; outputs of the other products
};

// The number of multiplications and additions of these products.
double product_operations(const ModelWeights& weights, std::int32_t n_rows, std::int32_t n_logit_rows);

}  // namespace slip::bench
