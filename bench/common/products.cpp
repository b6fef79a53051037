// SPDX-License-Identifier: Apache-2.0
#include "bench/common/products.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace slip::bench {
namespace {

std::vector<const kernels::PackedMatrix*> products(const ModelWeights& weights) {
  std::vector<const kernels::PackedMatrix*> all{&weights.lm_head};
  for (const ModelWeights::Layer& layer : weights.layers) {
    all.insert(all.end(), {&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.down});
  }
  return all;
}

// After the last layer's keys are stored for all rows, a pass continues only with rows whose logits are wanted.
std::int32_t rows_after_keys(const ModelWeights& weights, const ModelWeights::Layer& layer, std::int32_t n_rows,
                             std::int32_t n_logit_rows) {
  return &layer == &weights.layers.back() ? n_logit_rows : n_rows;
}

std::size_t values(const ModelWeights& weights, std::int32_t n_rows) {
  std::int64_t most = 0;
  for (const auto* weight : products(weights)) most = std::max(most, weight->n_out());
  return static_cast<std::size_t>(n_rows * most);
}

std::size_t activation_bytes(const ModelWeights& weights, std::int32_t n_rows) {
  std::int64_t most = 0;
  for (const auto* weight : products(weights)) most = std::max(most, weight->n_in());
  return kernels::Activations::bytes(n_rows, most);
}

}  // namespace

Products::Products(std::shared_ptr<const ModelWeights> weights, std::int32_t most_rows, kernels::ThreadPool& pool)
    : weights_(std::move(weights)),
      pool_(pool),
      activations_(activation_bytes(*weights_, most_rows)),
      residual_(static_cast<std::size_t>(most_rows) * static_cast<std::size_t>(weights_->config.hidden_size)),
      wide_(values(*weights_, most_rows)) {
  // About 0.01 in bfloat16 and float32; multiplying zeros could be faster than real activations.
  std::fill_n(activations_.data(), activation_bytes(*weights_, most_rows), std::byte{0x3C});
}

void Products::multiply(const kernels::PackedMatrix& weight, std::int32_t n_rows, std::vector<float>& y,
                        bool accumulate) {
  const kernels::Activations x(weight.compute_dtype(), n_rows, weight.n_in(), activations_.data());
  kernels::matmul(weight, x, {y.data(), weight.n_out(), accumulate}, pool_);
}

void Products::run(std::int32_t n_rows, std::int32_t n_logit_rows) {
  // Clears the sums of the previous pass, which would grow without bound.
  std::fill_n(residual_.data(), std::int64_t{n_rows} * weights_->config.hidden_size, 0.0F);
  for (const ModelWeights::Layer& layer : weights_->layers) {
    const std::int32_t rows_after = rows_after_keys(*weights_, layer, n_rows, n_logit_rows);
    multiply(layer.qkv, n_rows, wide_, /*accumulate=*/false);
    multiply(layer.attention_out, rows_after, residual_, /*accumulate=*/true);
    multiply(layer.gate_up, rows_after, wide_, /*accumulate=*/false);
    multiply(layer.down, rows_after, residual_, /*accumulate=*/true);
  }
  multiply(weights_->lm_head, n_logit_rows, wide_, /*accumulate=*/false);
}

double product_operations(const ModelWeights& weights, std::int32_t n_rows, std::int32_t n_logit_rows) {
  const auto of = [](const kernels::PackedMatrix& weight, std::int32_t rows) {
    return 2.0 * static_cast<double>(weight.n_out()) * static_cast<double>(weight.n_in()) * rows;
  };
  double sum = of(weights.lm_head, n_logit_rows);
  for (const ModelWeights::Layer& layer : weights.layers) {
    const std::int32_t rows_after = rows_after_keys(weights, layer, n_rows, n_logit_rows);
    sum += of(layer.qkv, n_rows);
    for (const auto* weight : {&layer.attention_out, &layer.gate_up, &layer.down}) sum += of(*weight, rows_after);
  }
  return sum;
}

}  // namespace slip::bench
