// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip::kernels {

// The further float32 operations of training a draft on a CPU, beside products and elementwise.h. A "slope" is the
// gradient of the loss with respect to the named value. Threads: any, on separate memory.

// Backward pass of y = x / sqrt(mean(x²) + eps) · weight, from y's slope. Adds x's slope to `x_slope`, the weight's to
// `weight_slope`.
struct RmsNormBack {
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* y_slope = nullptr;
  std::int64_t n = 0;
  float eps = 0;
  float* x_slope = nullptr;
  float* weight_slope = nullptr;
};
void rms_norm_back(const RmsNormBack& row);

// Backward pass of silu(gate) · up, elementwise: overwrites gate and up [n] with their slopes.
void silu_multiply_back(const float* slope, float* gate, float* up, std::int64_t n);

// One query head of one sequence over contiguous keys and values: softmax(scale · q keys) valuesᵀ. Query i sees the
// first `visible` + i keys.
struct DenseAttention {
  static constexpr std::int64_t kRows = 4;      // queries that are processed together
  static constexpr std::int64_t kColumns = 16;  // `stride` is a multiple of it

  const float* keys = nullptr;    // [head_dim, stride], one key per column, zero-padded
  const float* values = nullptr;  // [head_dim, stride], one value per column, zero-padded
  std::int64_t stride = 0;
  std::int64_t head_dim = 0;
  float scale = 0;
  const float* q = nullptr;     // [n_queries, head_dim]
  std::int64_t row_stride = 0;  // of q, out and their slopes
  std::int64_t n_queries = 0, visible = 0;
  float* out = nullptr;       // [n_queries, head_dim]
  float* log_sums = nullptr;  // [n_queries], log-sum-exp, from which backward recomputes the softmax
  float* scratch = nullptr;   // [2, kRows, stride]
  // Backward only. Slopes of keys and values have the same layout and are accumulated.
  const float* out_slope = nullptr;
  float* q_slope = nullptr;
  float* keys_slope = nullptr;
  float* values_slope = nullptr;
};
void dense_attention(const DenseAttention& head);
// Backward pass from q, keys, values, log_sums and the slope of `out`. Recomputes the softmax instead of keeping it
// (Dao, "FlashAttention-2", 2023, algorithm 2).
void dense_attention_back(const DenseAttention& head);

// to [columns, rows] = from [rows, columns]ᵀ; rows of `from` lie from_stride apart, those of `to` to_stride.
void transpose(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, float* to,
               std::int64_t to_stride);

}  // namespace slip::kernels
