// SPDX-License-Identifier: Apache-2.0
// Backward passes and dense attention in 16-lane arithmetic, included by each instruction class's source file.
#pragma once

#include "kernels/lanes.h"
#include "kernels/training.h"

namespace slip::kernels {
namespace {

// With r = 1 / sqrt(mean(x²) + eps): x's slope is r · (w y' − x r² mean(w y' x)).
void rms_norm_back_lanes(const RmsNormBack& row) {
  const std::int64_t n = row.n, whole = n / kLanes * kLanes;
  Lanes squares = broadcast(0), product = broadcast(0);
  const auto add = [&](const Lanes& x, const Lanes& weighted) {
    squares = fused(x, x, squares);
    product = fused(x, weighted, product);
  };
  for (std::int64_t i = 0; i < whole; i += kLanes) add(load(row.x + i), load(row.weight + i) * load(row.y_slope + i));
  if (whole < n) {
    const std::int64_t rest = n - whole;
    add(load_first(row.x + whole, rest), load_first(row.weight + whole, rest) * load_first(row.y_slope + whole, rest));
  }
  const auto count = static_cast<float>(n);
  const float inverse = 1.0F / __builtin_sqrtf(sum_lanes(squares) / count + row.eps);
  const float along = inverse * inverse * inverse * sum_lanes(product) / count;
  const Lanes inverses = broadcast(inverse), alongs = broadcast(-along);
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    const Lanes x = load(row.x + i), scaled = load(row.y_slope + i) * inverses;
    store(row.x_slope + i, fused(x, alongs, fused(scaled, load(row.weight + i), load(row.x_slope + i))));
    store(row.weight_slope + i, fused(x, scaled, load(row.weight_slope + i)));
  }
  for (std::int64_t i = whole; i < n; ++i) {
    const float scaled = row.y_slope[i] * inverse;
    row.x_slope[i] += scaled * row.weight[i] - row.x[i] * along;
    row.weight_slope[i] += row.x[i] * scaled;
  }
}

// With s = 1 / (1 + e^−g): silu(g) = g s, and its derivative is s (1 + g (1 − s)).
SLIP_LANES void silu_back(const Lanes& slope, Lanes& gate, Lanes& up) {
  const Lanes one = broadcast(1), share = one / (one + exponential(broadcast(0) - gate));
  const Lanes silu = gate * share;
  gate = slope * up * fused(share, one - silu, silu);
  up = slope * silu;
}

void silu_multiply_back_lanes(const float* slope, float* gate, float* up, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Lanes g = load(gate + i), u = load(up + i);
    silu_back(load(slope + i), g, u);
    store(gate + i, g);
    store(up + i, u);
  }
  if (i == n) return;
  Lanes g = load_first(gate + i, n - i), u = load_first(up + i, n - i);
  silu_back(load_first(slope + i, n - i), g, u);
  store_first(gate + i, g, n - i);
  store_first(up + i, u, n - i);
}

constexpr int kGroupsTogether = 4;  // groups of 16 keys; with four rows their sums fill half of AVX-512's registers

// out [kRows, kGroups · 16] = x [kRows, depth] · columns [depth, …], from the columns at `first` on.
template <int kRows, int kGroups>
SLIP_LANES void multiply_columns(const DenseAttention& head, const float* x, const float* columns, std::int64_t first,
                                 float* out) {
  Lanes sums[kRows][kGroups];
  for (auto& row : sums) {
    for (Lanes& sum : row) sum = broadcast(0);
  }
  for (std::int64_t d = 0; d < head.head_dim; ++d) {
    Lanes column[kGroups];
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) column[g] = load(columns + d * head.stride + first + g * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Lanes value = broadcast(x[r * head.row_stride + d]);
#pragma GCC unroll 8
      for (int g = 0; g < kGroups; ++g) sums[r][g] = fused(value, column[g], sums[r][g]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) store(out + r * head.stride + first + g * kLanes, sums[r][g]);
  }
}

// out [kRows, end] = x [kRows, head_dim] · columns; `end` is a multiple of 16.
template <int kRows>
void multiply(const DenseAttention& head, const float* x, const float* columns, std::int64_t end, float* out) {
  std::int64_t first = 0;
  constexpr std::int64_t kTogether = kGroupsTogether * kLanes;
  for (; first + kTogether <= end; first += kTogether) {
    multiply_columns<kRows, kGroupsTogether>(head, x, columns, first, out);
  }
  for (; first < end; first += kLanes) multiply_columns<kRows, 1>(head, x, columns, first, out);
}

template <int kRows, int kDims>
SLIP_LANES void weigh_columns(const DenseAttention& head, const float* weights, const float* columns, std::int64_t end,
                              float* out) {
  Lanes sums[kRows][kDims];
  for (auto& row : sums) {
    for (Lanes& sum : row) sum = broadcast(0);
  }
  for (std::int64_t first = 0; first < end; first += kLanes) {
    Lanes column[kDims];
#pragma GCC unroll 8
    for (int d = 0; d < kDims; ++d) column[d] = load(columns + d * head.stride + first);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Lanes weight = load(weights + r * head.stride + first);
#pragma GCC unroll 8
      for (int d = 0; d < kDims; ++d) sums[r][d] = fused(weight, column[d], sums[r][d]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int d = 0; d < kDims; ++d) out[r * head.row_stride + d] = sum_lanes(sums[r][d]);
  }
}

// out [kRows, head_dim] = weights [kRows, end] · columnsᵀ.
template <int kRows>
void weigh(const DenseAttention& head, const float* weights, const float* columns, std::int64_t end, float* out) {
  std::int64_t d = 0;
  for (; d + 4 <= head.head_dim; d += 4) {
    weigh_columns<kRows, 4>(head, weights, columns + d * head.stride, end, out + d);
  }
  for (; d < head.head_dim; ++d) weigh_columns<kRows, 1>(head, weights, columns + d * head.stride, end, out + d);
}

// sums [head_dim, end] += x [kRows, head_dim]ᵀ · weights [kRows, end].
template <int kRows>
void add_products(const DenseAttention& head, const float* x, const float* weights, std::int64_t end, float* sums) {
  for (std::int64_t first = 0; first < end; first += kLanes) {
    Lanes weight[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) weight[r] = load(weights + r * head.stride + first);
    for (std::int64_t d = 0; d < head.head_dim; ++d) {
      float* to = sums + d * head.stride + first;
      Lanes sum = load(to);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum = fused(broadcast(x[r * head.row_stride + d]), weight[r], sum);
      store(to, sum);
    }
  }
}

std::int64_t whole_groups(std::int64_t n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}

// Sets the scores of keys that a row does not see to −∞, so that their weights become zero.
void hide_rest(float* scores, std::int64_t visible, std::int64_t end) {
  for (std::int64_t key = visible; key < end; ++key) scores[key] = -__builtin_inff();
}

// Replaces scores [end] by exp(scale · score − shift); returns their sum.
float exponentiate(float* scores, std::int64_t end, float scale, float shift) {
  Lanes sum = broadcast(0);
  for (std::int64_t key = 0; key < end; key += kLanes) {
    const Lanes weight = exponential(load(scores + key) * broadcast(scale) - broadcast(shift));
    store(scores + key, weight);
    sum = sum + weight;
  }
  return sum_lanes(sum);
}

template <int kRows>
void attend(const DenseAttention& head, std::int64_t row) {
  const std::int64_t end = whole_groups(head.visible + row + kRows - 1);
  multiply<kRows>(head, head.q + row * head.row_stride, head.keys, end, head.scratch);
  for (int r = 0; r < kRows; ++r) {
    float* weights = head.scratch + r * head.stride;
    hide_rest(weights, head.visible + row + r, end);
    Lanes most = load(weights);
    for (std::int64_t key = kLanes; key < end; key += kLanes) most = larger(most, load(weights + key));
    const float top = max_lanes(most) * head.scale;
    const float sum = exponentiate(weights, end, head.scale, top);
    const Lanes inverse = broadcast(1 / sum);
    for (std::int64_t key = 0; key < end; key += kLanes) store(weights + key, load(weights + key) * inverse);
    head.log_sums[row + r] = top + __builtin_logf(sum);
  }
  weigh<kRows>(head, head.scratch, head.values, end, head.out + row * head.row_stride);
}

// With weights p and their slopes p', a score's slope is p (p' − Σ p p').
template <int kRows>
void attend_back(const DenseAttention& head, std::int64_t row) {
  const std::int64_t end = whole_groups(head.visible + row + kRows - 1);
  const float* q = head.q + row * head.row_stride;
  const float* out_slope = head.out_slope + row * head.row_stride;
  float* all_weights = head.scratch;
  float* all_slopes = head.scratch + DenseAttention::kRows * head.stride;
  multiply<kRows>(head, q, head.keys, end, all_weights);
  multiply<kRows>(head, out_slope, head.values, end, all_slopes);
  for (int r = 0; r < kRows; ++r) {
    float* weights = all_weights + r * head.stride;
    float* slopes = all_slopes + r * head.stride;
    hide_rest(weights, head.visible + row + r, end);
    exponentiate(weights, end, head.scale, head.log_sums[row + r]);
    Lanes product = broadcast(0);
    for (std::int64_t key = 0; key < end; key += kLanes) {
      product = fused(load(weights + key), load(slopes + key), product);
    }
    const Lanes mean = broadcast(sum_lanes(product)), scale = broadcast(head.scale);
    for (std::int64_t key = 0; key < end; key += kLanes) {
      store(slopes + key, load(weights + key) * (load(slopes + key) - mean) * scale);
    }
  }
  add_products<kRows>(head, out_slope, all_weights, end, head.values_slope);
  add_products<kRows>(head, q, all_slopes, end, head.keys_slope);
  weigh<kRows>(head, all_slopes, head.keys, end, head.q_slope + row * head.row_stride);
}

void dense_attention_lanes(const DenseAttention& head) {
  std::int64_t row = 0;
  for (; row + DenseAttention::kRows <= head.n_queries; row += DenseAttention::kRows) {
    attend<DenseAttention::kRows>(head, row);
  }
  for (; row < head.n_queries; ++row) attend<1>(head, row);
}

void dense_attention_back_lanes(const DenseAttention& head) {
  std::int64_t row = 0;
  for (; row + DenseAttention::kRows <= head.n_queries; row += DenseAttention::kRows) {
    attend_back<DenseAttention::kRows>(head, row);
  }
  for (; row < head.n_queries; ++row) attend_back<1>(head, row);
}

}  // namespace
}  // namespace slip::kernels
