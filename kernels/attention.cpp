// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/elementwise.h"

namespace slip::kernels {
namespace {

float load(const std::byte* base, std::int64_t index, Dtype dtype) {
  return dtype == Dtype::kFloat32 ? reinterpret_cast<const float*>(base)[index]
                                  : bf16_to_float(reinterpret_cast<const std::uint16_t*>(base)[index]);
}

bool sees(const AttentionRow& row, std::int32_t own) {
  if (row.ancestors.empty()) return own <= row.own_index;
  return own <= row.own_index && ((row.ancestors[own / 64] >> (own % 64)) & 1U) != 0;
}

void one_head(const float* q, const PagedKv& kv, const AttentionRow& row, int kv_head, float scale, float* out) {
  const std::int64_t half = std::int64_t{kv.n_kv_heads} * kv.page_tokens * kv.head_dim;
  float best = -INFINITY, total = 0;
  std::vector<float> sum(kv.head_dim, 0.0F);
  for (std::int32_t slot = 0; slot <= row.n_committed + row.own_index; ++slot) {
    if (slot >= row.n_committed && !sees(row, slot - row.n_committed)) continue;
    const auto* page =
        static_cast<const std::byte*>(kv.base) + std::int64_t{row.pages[slot / kv.page_tokens]} * kv.page_stride_bytes;
    const std::int64_t at = (std::int64_t{kv_head} * kv.page_tokens + slot % kv.page_tokens) * kv.head_dim;
    float score = 0;
    for (int d = 0; d < kv.head_dim; ++d) score += q[d] * load(page, at + d, kv.dtype);
    score *= scale;
    const float next = std::max(best, score);
    const float keep = std::exp(best - next), weight = std::exp(score - next);
    total = total * keep + weight;
    for (int d = 0; d < kv.head_dim; ++d) sum[d] = sum[d] * keep + weight * load(page, half + at + d, kv.dtype);
    best = next;
  }
  for (int d = 0; d < kv.head_dim; ++d) out[d] = sum[d] / total;
}

}  // namespace

void paged_attention(const float* q, std::int64_t q_stride, const PagedKv& kv, std::span<const AttentionRow> rows,
                     int n_heads, float scale, float* out, std::int64_t out_stride, ThreadPool& pool) {
  const int group = n_heads / kv.n_kv_heads;
  pool.parallel_for(rows.size() * static_cast<std::size_t>(n_heads), [&](std::size_t index, int) {
    const auto row = static_cast<std::int64_t>(index) / n_heads;
    const int head = static_cast<int>(static_cast<std::int64_t>(index) % n_heads);
    one_head(q + row * q_stride + std::int64_t{head} * kv.head_dim, kv, rows[row], head / group, scale,
             out + row * out_stride + std::int64_t{head} * kv.head_dim);
  });
}

void store_kv(const PagedKv& kv, std::int32_t page, int offset, const float* k, const float* v) {
  auto* base = static_cast<std::byte*>(kv.base) + std::int64_t{page} * kv.page_stride_bytes;
  const std::int64_t half = std::int64_t{kv.n_kv_heads} * kv.page_tokens * kv.head_dim;
  for (int head = 0; head < kv.n_kv_heads; ++head) {
    const std::int64_t at = (std::int64_t{head} * kv.page_tokens + offset) * kv.head_dim;
    for (int d = 0; d < kv.head_dim; ++d) {
      const std::int64_t from = std::int64_t{head} * kv.head_dim + d;
      if (kv.dtype == Dtype::kFloat32) {
        reinterpret_cast<float*>(base)[at + d] = k[from];
        reinterpret_cast<float*>(base)[half + at + d] = v[from];
      } else {
        reinterpret_cast<std::uint16_t*>(base)[at + d] = float_to_bf16(k[from]);
        reinterpret_cast<std::uint16_t*>(base)[half + at + d] = float_to_bf16(v[from]);
      }
    }
  }
}

}  // namespace slip::kernels
