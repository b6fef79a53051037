// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_transformer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "common/error.h"

namespace slip {
namespace {

using kernels::cuda::activation_elements;
using kernels::cuda::Attention;
using kernels::cuda::DeviceKv;
using kernels::cuda::Embed;
using kernels::cuda::Epilogue;
using kernels::cuda::Matmul;
using kernels::cuda::RmsNorm;
using kernels::cuda::RotateAndStore;
using kernels::cuda::RowWeights;

std::size_t elements(std::int64_t a, std::int64_t b) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
}

// Elements of the partial results of all rows, heads and splits: see Attention::partial.
std::size_t partial_elements(const ModelConfig& config, std::int64_t max_rows) {
  const std::int64_t n_ranks = config.max_positions + max_rows;
  const auto n_splits = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>((n_ranks - 1) / kernels::cuda::kSplitRanks + 1)));
  const std::int64_t rows = std::min<std::int64_t>(max_rows, kMostCapturedRows);
  return elements(std::min<std::int64_t>(rows * n_splits, kMostSplitSums),
                  std::int64_t{config.n_heads} * (config.head_dim + 2));
}

DeviceKv device_kv(const kernels::PagedKv& kv) {
  DeviceKv out;
  out.base = static_cast<std::uint16_t*>(kv.base);
  out.page_stride = kv.page_stride_bytes / static_cast<std::int64_t>(sizeof(std::uint16_t));
  out.n_kv_heads = kv.n_kv_heads;
  out.head_dim = kv.head_dim;
  out.page_tokens = kv.page_tokens;
  return out;
}

}  // namespace

struct DeviceTransformer::Pass : Operands {
  const DevicePassShape& shape;

  const DeviceModel::Layer& layer(std::int32_t index) const { return model.layers[static_cast<std::size_t>(index)]; }
  RowWeights row_weights() const { return {by_weight_slots ? step.row_weights() : nullptr, !shape.grouped}; }
  RowWeights logit_row_weights() const {
    return {by_weight_slots ? step.logit_row_weights() : nullptr, !shape.grouped};
  }
};

DeviceTransformer::DeviceTransformer(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const ModelConfig& config,
                                     const Bounds& bounds)
    : queue_(std::move(queue)),
      config_(config),
      hidden_(config.hidden_size),
      query_width_(std::int64_t{config.n_heads} * config.head_dim),
      qkv_width_(std::int64_t{config.n_heads + 2 * config.n_kv_heads} * config.head_dim),
      ffn_(device_ffn(config)),
      cos_(*queue_, elements(config.max_positions, config.head_dim / 2)),
      sin_(*queue_, cos_.size()),
      residual_(*queue_, elements(bounds.max_rows, hidden_)),
      qkv_(*queue_, elements(bounds.max_rows, qkv_width_)),
      final_hidden_(*queue_, elements(bounds.max_logit_rows, hidden_)),
      partial_(*queue_, partial_elements(config, bounds.max_rows)),
      normed_(*queue_, static_cast<std::size_t>(activation_elements(bounds.max_rows, hidden_))),
      attended_(*queue_, static_cast<std::size_t>(activation_elements(bounds.max_rows, query_width_))),
      ffn_activations_(*queue_, static_cast<std::size_t>(activation_elements(bounds.max_rows, ffn_))),
      head_activations_(*queue_, static_cast<std::size_t>(activation_elements(bounds.max_logit_rows, hidden_))) {
  const RopeTable rope(config);
  queue_->copy_in(cos_.get(), rope.cos.data(), rope.cos.size() * sizeof(float));
  queue_->copy_in(sin_.get(), rope.sin.data(), rope.sin.size() * sizeof(float));
  queue_->wait();
}

Matmul DeviceTransformer::product(const Pass& pass, const kernels::cuda::Weight<std::uint16_t>& weight,
                                  const kernels::cuda::DeviceMemory<std::uint16_t>& from) const {
  Matmul job;
  job.weight = weight;
  job.row_weights = pass.row_weights();
  job.activations = from.get();
  job.n_rows = pass.shape.n_rows;
  job.n_out = job.y_stride = hidden_;
  job.n_in = hidden_;
  return job;
}

void DeviceTransformer::put_norm(const Pass& pass, const kernels::cuda::Weight<float>& weight) const {
  RmsNorm job;
  job.x = residual_.get();
  job.x_stride = job.n = hidden_;
  job.weight = weight;
  job.eps = static_cast<float>(config_.rms_norm_eps);
  job.activations = normed_.get();
  job.row_weights = pass.row_weights();
  queue_->enqueue(job, pass.shape.n_rows);
}

void DeviceTransformer::put_attention(const Pass& pass, std::int32_t index) const {
  const DeviceModel::Layer& layer = pass.layer(index);
  const DeviceKv kv = device_kv(pass.cache.layer(index));
  const kernels::cuda::DeviceRow* rows = pass.step.rows(config_.window(index));
  put_norm(pass, layer.attention_norm);
  Matmul qkv = product(pass, layer.qkv, normed_);
  qkv.n_out = qkv.y_stride = qkv_width_;
  qkv.bias = layer.qkv_bias;
  qkv.y = qkv_.get();
  queue_->enqueue(qkv);
  queue_->enqueue(
      RotateAndStore{qkv_.get(), qkv_width_, config_.n_heads, kv, rows, pass.step.positions(), cos_.get(), sin_.get(),
                     layer.q_norm, layer.k_norm, static_cast<float>(config_.rms_norm_eps), pass.row_weights()},
      pass.shape.n_rows);
  Attention attention;
  attention.q = qkv_.get();
  attention.q_stride = qkv_width_;
  attention.kv = kv;
  attention.rows = rows;
  attention.tiles = pass.step.tiles();
  attention.n_heads = config_.n_heads;
  attention.heads_a_tile = pass.step.tiling().heads;
  attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  attention.whole = pass.shape.n_splits == 0;
  attention.n_splits = pass.shape.n_splits;
  attention.partial = partial_.get();
  attention.activations = attended_.get();
  queue_->enqueue(attention, {pass.shape.n_rows, pass.shape.n_tiles, pass.step.tiling().rows});
  Matmul out = product(pass, layer.attention_out, attended_);
  out.n_in = query_width_;
  out.bias = layer.attention_out_bias;
  out.epilogue = Epilogue::kAdd;
  out.y = residual_.get();
  queue_->enqueue(out);
}

void DeviceTransformer::put_ffn(const Pass& pass, std::int32_t index) const {
  const DeviceModel::Layer& layer = pass.layer(index);
  put_norm(pass, layer.ffn_norm);
  Matmul gate_up = product(pass, layer.gate_up, normed_);
  gate_up.n_out = 2 * ffn_;
  gate_up.bias = layer.gate_up_bias;
  gate_up.epilogue = Epilogue::kGateUp;
  gate_up.y_activations = ffn_activations_.get();
  queue_->enqueue(gate_up);
  Matmul down = product(pass, layer.down, ffn_activations_);
  down.n_in = ffn_;
  down.bias = layer.down_bias;
  down.epilogue = Epilogue::kAdd;
  down.y = residual_.get();
  queue_->enqueue(down);
}

void DeviceTransformer::put_head(const Pass& pass) const {
  RmsNorm norm;
  norm.x = residual_.get();
  norm.x_stride = norm.n = norm.y_stride = hidden_;
  norm.weight = pass.model.final_norm;
  norm.eps = static_cast<float>(config_.rms_norm_eps);
  norm.rows = pass.step.logit_rows();
  norm.y = final_hidden_.get();
  norm.activations = head_activations_.get();
  norm.row_weights = pass.logit_row_weights();
  queue_->enqueue(norm, pass.shape.n_logit_rows);
  if (pass.logits == nullptr) return;
  Matmul head = product(pass, pass.model.lm_head, head_activations_);
  head.row_weights = norm.row_weights;
  head.n_rows = pass.shape.n_logit_rows;
  head.n_out = head.y_stride = config_.vocab_size;
  head.y = pass.logits;
  head.y_rows = pass.by_weight_slots ? pass.step.logit_places() : nullptr;
  queue_->enqueue(head);
}

void DeviceTransformer::put(const Operands& operands, const DevicePassShape& shape,
                            const std::function<void(std::int32_t layer)>& after_layer) const {
  const Pass pass{operands, shape};
  const bool tied = pass.model.embedding.empty();
  Embed embed;
  embed.embedding = tied ? pass.model.lm_head : pass.model.embedding;
  embed.packed = tied;
  embed.tokens = pass.tokens == nullptr ? pass.step.tokens() : pass.tokens;
  embed.token_rows = pass.tokens == nullptr ? nullptr : pass.step.token_rows();
  embed.row_weights = pass.row_weights();
  embed.n = hidden_;
  embed.hidden = residual_.get();
  queue_->enqueue(embed, shape.n_rows);
  for (std::int32_t layer = 0; layer < config_.n_layers; ++layer) {
    put_attention(pass, layer);
    put_ffn(pass, layer);
    if (after_layer) after_layer(layer);
  }
  put_head(pass);
}

}  // namespace slip
