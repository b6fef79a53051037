// SPDX-License-Identifier: Apache-2.0
#include "bench/common_products.h"

#include <algorithm>
#include <utility>

#include "engine/model/workspace_buffers.h"

namespace slip::bench {

Products::Products(std::shared_ptr<const ModelWeights> weights, std::int32_t most_rows, kernels::ThreadPool& pool)
    : weights_(std::move(weights)),
      pool_(pool),
      workspace_(weights_->config, most_rows, most_rows),
      logits_(static_cast<std::size_t>(most_rows) * static_cast<std::size_t>(weights_->config.vocab_size)) {
  // Zeros would be easier on the machine than a model's activations are.
  const ModelConfig& config = weights_->config;
  Workspace::Buffers& buffers = workspace_.buffers();
  const auto fill = [&](float* data, std::int64_t width) {
    for (std::int64_t i = 0; i < most_rows * width; ++i) data[i] = static_cast<float>(i % 17 - 8) * 0.01F;
  };
  fill(buffers.normed.data(), config.hidden_size);
  fill(buffers.attention.data(), std::int64_t{config.n_heads} * config.head_dim);
  fill(buffers.final_hidden.data(), config.hidden_size);
}

void Products::multiply(const kernels::PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows,
                        float* y, bool accumulate) {
  kernels::matmul(weight, x, x_stride, n_rows, y, weight.n_out(), accumulate, workspace_.buffers().scratch.data(),
                  pool_);
}

void Products::run(std::int32_t n_rows, std::int32_t n_logit_rows) {
  const std::int64_t hidden = weights_->config.hidden_size;
  const Workspace::Buffers& buffers = workspace_.buffers();
  // What a pass before this one added up would grow without end.
  std::fill_n(buffers.residual.data(), n_rows * hidden, 0.0F);
  for (const ModelWeights::Layer& layer : weights_->layers) {
    multiply(layer.qkv, buffers.normed.data(), hidden, n_rows, buffers.qkv.data(), /*accumulate=*/false);
    multiply(layer.attention_out, buffers.attention.data(), layer.attention_out.n_in(), n_rows, buffers.residual.data(),
             /*accumulate=*/true);
    multiply(layer.gate_up, buffers.normed.data(), hidden, n_rows, buffers.gate_up.data(), /*accumulate=*/false);
    multiply(layer.down, buffers.gate_up.data(), layer.gate_up.n_out(), n_rows, buffers.residual.data(),
             /*accumulate=*/true);
  }
  multiply(weights_->lm_head, buffers.final_hidden.data(), hidden, n_logit_rows, logits_.data(), /*accumulate=*/false);
}

double product_operations(const ModelWeights& weights, std::int32_t n_rows, std::int32_t n_logit_rows) {
  const auto of = [](const kernels::PackedMatrix& weight, std::int32_t rows) {
    return 2.0 * static_cast<double>(weight.n_out()) * static_cast<double>(weight.n_in()) * rows;
  };
  double sum = of(weights.lm_head, n_logit_rows);
  for (const ModelWeights::Layer& layer : weights.layers) {
    for (const auto* weight : {&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.down})
      sum += of(*weight, n_rows);
  }
  return sum;
}

}  // namespace slip::bench
