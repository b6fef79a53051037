// SPDX-License-Identifier: Apache-2.0
// Attention in both passes of CpuDraft.
#include <algorithm>
#include <cmath>

#include "distill/trainer/cpu_draft_state.h"
#include "kernels/training.h"

namespace slip {

using kernels::DenseAttention;

template <class Body>
void CpuDraft::State::each_key_head(const Queries& queries, const float* kv, const Body& body) {
  const std::int64_t head_dim = config.head_dim, n_heads = config.n_kv_heads;
  std::int64_t longest = 0;
  for (const Queries::Stretch& s : queries.stretches) longest = std::max(longest, s.from + s.n);
  constexpr std::int64_t kColumns = DenseAttention::kColumns;
  const auto stride_of = [](std::int64_t n) { return (n + kColumns - 1) / kColumns * kColumns; };
  const std::int64_t each = (4 * head_dim + 2 * DenseAttention::kRows) * stride_of(longest);
  float* memory = heads.of(each * pool.n_threads());
  const auto work = [&](std::size_t index, int worker) {
    const Queries::Stretch& s = queries.stretches[index / static_cast<std::size_t>(n_heads)];
    if (s.n == 0) return;
    const auto head = static_cast<std::int64_t>(index) % n_heads;
    const std::int64_t n = s.from + s.n, stride = stride_of(n), first_row = s.row - s.from;
    float* keys = memory + worker * each;
    float* values = keys + head_dim * stride;
    std::fill_n(keys, 2 * head_dim * stride, 0.0F);
    const float* rows = kv + first_row * 2 * key + head * head_dim;
    kernels::transpose(rows, 2 * key, n, head_dim, keys, stride);
    kernels::transpose(rows + key, 2 * key, n, head_dim, values, stride);
    DenseAttention attention;
    attention.keys = keys;
    attention.values = values;
    attention.stride = stride;
    attention.head_dim = head_dim;
    attention.scale = 1 / std::sqrt(static_cast<float>(head_dim));
    attention.row_stride = query;
    attention.n_queries = s.n;
    attention.visible = s.from + 1;
    body(s, head, attention, values + head_dim * stride);
  };
  pool.parallel_for(queries.stretches.size() * static_cast<std::size_t>(n_heads), work);
}

void CpuDraft::State::attend(const Queries& queries, const float* kv, QueryRows& rows) {
  const std::int64_t group = config.n_heads / config.n_kv_heads;
  float* log_sums = rows.log_sums.of(config.n_heads * queries.n);
  float* out = rows.mixed.of(queries.n * query);
  each_key_head(queries, kv, [&](const Queries::Stretch& s, std::int64_t head, DenseAttention attention, float* free) {
    attention.scratch = free;
    for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
      attention.q = rows.q.get() + s.at * query + h * config.head_dim;
      attention.out = out + s.at * query + h * config.head_dim;
      attention.log_sums = log_sums + h * queries.n + s.at;
      kernels::dense_attention(attention);
    }
  });
}

void CpuDraft::State::attend_back(const Queries& queries, const float* kv, QueryRows& rows, const float* slope,
                                  float* q_slope, float* kv_slope) {
  const std::int64_t group = config.n_heads / config.n_kv_heads, head_dim = config.head_dim;
  each_key_head(queries, kv, [&](const Queries::Stretch& s, std::int64_t head, DenseAttention attention, float* free) {
    attention.keys_slope = free;
    attention.values_slope = free + head_dim * attention.stride;
    attention.scratch = free + 2 * head_dim * attention.stride;
    std::fill_n(free, 2 * head_dim * attention.stride, 0.0F);
    for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
      const std::int64_t at = s.at * query + h * head_dim;
      attention.q = rows.q.get() + at;
      attention.out_slope = slope + at;
      attention.q_slope = q_slope + at;
      attention.log_sums = rows.log_sums.get() + h * queries.n + s.at;
      kernels::dense_attention_back(attention);
    }
    float* to = kv_slope + (s.row - s.from) * 2 * key + head * head_dim;
    kernels::transpose(attention.keys_slope, attention.stride, head_dim, s.from + s.n, to, 2 * key);
    kernels::transpose(attention.values_slope, attention.stride, head_dim, s.from + s.n, to + key, 2 * key);
  });
}

}  // namespace slip
