// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/model/transformer.h"
#include "kernels/thread_pool.h"

namespace slip::bench {

// The matrix products of a step and nothing else: the calls that a forward pass makes, in their order, on its weights
// and in buffers like its own.
class Products {
 public:
  Products(std::shared_ptr<const ModelWeights> weights, std::int32_t most_rows, kernels::ThreadPool& pool);
  // Of the `n_rows` rows, `n_logit_rows` go on to the vocabulary.
  void run(std::int32_t n_rows, std::int32_t n_logit_rows);

 private:
  void multiply(const kernels::PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows,
                float* y, bool accumulate);

  std::shared_ptr<const ModelWeights> weights_;
  kernels::ThreadPool& pool_;
  Workspace workspace_;
  std::vector<float> logits_;
};

// Multiplications and additions of these products.
double product_operations(const ModelWeights& weights, std::int32_t n_rows, std::int32_t n_logit_rows);

}  // namespace slip::bench
