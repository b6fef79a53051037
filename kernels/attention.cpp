// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/elementwise.h"

namespace slip::kernels {
namespace {

constexpr int kMaxHeadDim = 256;

float element(const PagedKv& kv, const std::byte* at, std::int64_t i) {
  return kv.dtype == Dtype::kFloat32 ? reinterpret_cast<const float*>(at)[i]
                                     : bf16_to_float(reinterpret_cast<const std::uint16_t*>(at)[i]);
}

std::byte* slot_at(const PagedKv& kv, std::int32_t page, int offset, int kv_head, bool value) {
  const std::int64_t row = ((value ? kv.n_kv_heads : 0) + kv_head) * std::int64_t{kv.page_tokens} + offset;
  return static_cast<std::byte*>(kv.base) + page * kv.page_stride_bytes +
         row * kv.head_dim * static_cast<std::int64_t>(dtype_bytes(kv.dtype));
}

bool sees(const AttentionRow& row, std::int32_t slot) {
  if (slot < row.n_committed) return true;
  const std::int32_t i = slot - row.n_committed;
  if (row.ancestors.empty()) return i <= row.own_index;
  return (row.ancestors[static_cast<std::size_t>(i) / 64] >> (i % 64) & 1) != 0;
}

std::int32_t slot_end(const AttentionRow& row) {
  return row.n_committed +
         (row.ancestors.empty() ? row.own_index + 1 : static_cast<std::int32_t>(row.ancestors.size()) * 64);
}

void attend(const float* q, const PagedKv& kv, const AttentionRow& row, int kv_head, float scale, float* out) {
  float best = -std::numeric_limits<float>::infinity(), total = 0, sum[kMaxHeadDim] = {};
  for (std::int32_t slot = 0; slot < slot_end(row); ++slot) {
    if (!sees(row, slot)) continue;
    const std::byte* k = slot_at(kv, row.pages[slot / kv.page_tokens], slot % kv.page_tokens, kv_head, false);
    const std::byte* v = slot_at(kv, row.pages[slot / kv.page_tokens], slot % kv.page_tokens, kv_head, true);
    float score = 0;
    for (int d = 0; d < kv.head_dim; ++d) score += q[d] * element(kv, k, d);
    score *= scale;
    const float now = std::max(best, score);
    const float shrink = std::exp(best - now), weight = std::exp(score - now);
    best = now;
    total = total * shrink + weight;
    for (int d = 0; d < kv.head_dim; ++d) sum[d] = sum[d] * shrink + weight * element(kv, v, d);
  }
  for (int d = 0; d < kv.head_dim; ++d) out[d] = sum[d] / total;
}

}  // namespace

void paged_attention(const float* q, std::int64_t q_stride, const PagedKv& kv, std::span<const AttentionRow> rows,
                     int n_heads, float scale, float* out, std::int64_t out_stride, ThreadPool& pool) {
  const int group = n_heads / kv.n_kv_heads;
  const auto heads = static_cast<std::size_t>(n_heads);
  pool.parallel_for(rows.size() * heads, [&](std::size_t index, int) {
    const auto row = static_cast<std::int64_t>(index / heads);
    const int head = static_cast<int>(index % heads);
    attend(q + row * q_stride + head * kv.head_dim, kv, rows[index / heads], head / group, scale,
           out + row * out_stride + head * kv.head_dim);
  });
}

void store_kv(const PagedKv& kv, std::int32_t page, int offset, const float* k, const float* v) {
  for (int head = 0; head < kv.n_kv_heads; ++head) {
    for (const bool value : {false, true}) {
      const float* from = (value ? v : k) + std::int64_t{head} * kv.head_dim;
      std::byte* to = slot_at(kv, page, offset, head, value);
      for (int d = 0; d < kv.head_dim; ++d) {
        if (kv.dtype == Dtype::kFloat32) {
          reinterpret_cast<float*>(to)[d] = from[d];
        } else {
          reinterpret_cast<std::uint16_t*>(to)[d] = float_to_bf16(from[d]);
        }
      }
    }
  }
}

}  // namespace slip::kernels
