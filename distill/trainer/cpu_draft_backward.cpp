// SPDX-License-Identifier: Apache-2.0
// The backward pass of CpuDraft.
#include "distill/trainer/cpu_draft_state.h"
#include "kernels/elementwise.h"
#include "kernels/training.h"

namespace slip {

using kernels::PackedMatrix;

void CpuDraft::State::multiply_back(std::span<const Part> parts, const float* slope, std::int64_t n, float* x_slope) {
  multiply(PackedMatrix::transposed(rows_of(parts), parts[0].n_in, products), slope, n, x_slope);
}

void CpuDraft::State::add_gradients(std::span<const Part> parts, const float* slope, const float* x, std::int64_t n) {
  const std::int64_t n_in = parts[0].n_in;
  const PackedMatrix inputs = PackedMatrix::transposed({{{x, Dtype::kFloat32, n}}}, n_in, products);
  std::int64_t width = 0;
  for (const Part& part : parts) width += part.n_out;
  float* by_column = columns.of(width * n);
  kernels::transpose(slope, width, n, width, by_column, n);
  for (const Part& part : parts) {
    multiply(inputs, by_column, part.n_out, part.matrix.gradient, /*accumulate=*/true);
    by_column += part.n_out * n;
  }
}

void CpuDraft::State::norm_back(const float* x, const TrainedWeights::Matrix& weight, const float* slope,
                                std::int64_t n, float* x_slope) {
  const auto eps = static_cast<float>(config.rms_norm_eps);
  for (std::int64_t at = 0; at < n * hidden; at += hidden) {
    kernels::rms_norm_back({x + at, weight.value, slope + at, hidden, eps, x_slope + at, weight.gradient});
  }
}

void CpuDraft::State::layer_back(const TrainedWeights::Layer& weights, std::size_t l, float* slope) {
  LayerRows& layer = layers[l];
  QueryRows& rows = layer.kept;
  const Queries& queries = with_gradient(layer);
  const std::int64_t n = queries.n, n_row = all.n;
  const LayerParts parts = parts_of(weights);

  float* gated_slope = wide_slopes.of(n * ffn);
  multiply_back(parts.down, slope, n, gated_slope);
  add_gradients(parts.down, slope, rows.gated.get(), n);
  for (std::int64_t row = 0; row < n; ++row) {
    float* gate = rows.gate_up.get() + row * 2 * ffn;
    kernels::silu_multiply_back(gated_slope + row * ffn, gate, gate + ffn, ffn);
  }
  float* normed_slope = normed_slopes.of(n_row * hidden);
  multiply_back(parts.gate_up, rows.gate_up.get(), n, normed_slope);
  add_gradients(parts.gate_up, rows.gate_up.get(), rows.ffn_in.get(), n);
  norm_back(rows.attended.get(), weights.ffn_norm, normed_slope, n, slope);

  float* mixed_slope = wide_slopes.of(n * query);
  multiply_back(parts.out, slope, n, mixed_slope);
  add_gradients(parts.out, slope, rows.mixed.get(), n);
  float* q_slope = q_slopes.of(n * query);
  float* kv_slope = kv_slopes.zeros(n_row * 2 * key);
  attend_back(queries, layer.kv.get(), rows, mixed_slope, q_slope, kv_slope);
  turn(queries, sin_back, config.n_heads, query, q_slope);
  turn(all, sin_back, config.n_kv_heads, 2 * key, kv_slope);

  add_gradients(parts.q, q_slope, rows.normed.get(), n);
  add_gradients(parts.kv, kv_slope, layer.normed.get(), n_row);
  multiply_back(parts.kv, kv_slope, n_row, normed_slope);
  float* of_queries = rows.ffn_in.get();  // reuses the buffer: its values are no longer needed
  multiply_back(parts.q, q_slope, n, of_queries);
  float* x_slope = x_slopes.zeros(n_row * hidden);
  queries.scatter(slope, hidden, x_slope);
  for (const Queries::Stretch& s : queries.stretches) {
    for (std::int64_t i = 0; i < s.n; ++i) {
      kernels::add(normed_slope + (s.row + i) * hidden, of_queries + (s.at + i) * hidden, hidden);
    }
  }
  norm_back(layer.x.get(), weights.attention_norm, normed_slope, n_row, x_slope);
}

void CpuDraft::backward(const TrainedWeights& weights, std::span<const float> slope, const PausePoint& pause) {
  State& state = *state_;
  state.pause = pause;
  const std::int64_t hidden = state.hidden;
  float* slopes = state.slopes.zeros(state.all.n * hidden);
  state.norm_back(state.last.get(), weights.final_norm, slope.data(), state.wanted.n, slopes);
  for (std::size_t l = state.layers.size(); l-- > 0;) {
    state.layer_back(weights.layers[l], l, slopes);
    if (l > 0) state.with_gradient(state.layers[l - 1]).gather(state.x_slopes.get(), hidden, slopes);
  }
  for (std::int64_t row = 0; row < state.all.n; ++row) {
    kernels::add(weights.embedding.gradient + state.tokens[row] * hidden, state.x_slopes.get() + row * hidden, hidden);
  }
}

}  // namespace slip
