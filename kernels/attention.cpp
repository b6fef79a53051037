// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "common/error.h"
#include "kernels/elementwise.h"
#include "kernels/exp.h"

namespace slip::kernels {
namespace {

constexpr int kMaxHeadDim = 256;
constexpr int kLanes = 16;
constexpr int kBlockSlots = 16;  // visible slots per softmax block, counted by rank: never by page

inline float exp_negative(float x) {
  return x < -87.0F ? 0.0F : fast_exp(x);
}

inline float widen(float value) {
  return value;
}
inline float widen(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

template <class Element>
struct Head {
  const float* q;
  const std::byte* base;
  std::int64_t page_stride_bytes, head_offset, value_offset;  // offsets in elements inside a page
  int page_tokens, head_dim;

  const Element* key(const AttentionRow& row, std::int32_t slot) const {
    const auto* page = base + std::int64_t{row.pages[slot / page_tokens]} * page_stride_bytes;
    return reinterpret_cast<const Element*>(page) + head_offset + std::int64_t{slot % page_tokens} * head_dim;
  }
};

// The next visible slot at or after `slot`, or −1.
std::int32_t next_visible(const AttentionRow& row, std::int32_t slot) {
  for (; slot <= row.n_committed + row.own_index; ++slot) {
    if (slot < row.n_committed || row.ancestors.empty()) return slot;
    const std::int32_t own = slot - row.n_committed;
    if (((row.ancestors[own / 64] >> (own % 64)) & 1U) != 0) return slot;
  }
  return -1;
}

// State of the online softmax of one query row and head (Milakov and Gimelshein, 2018).
struct Softmax {
  float best = -std::numeric_limits<float>::infinity();
  float total = 0;
  std::array<float, kMaxHeadDim> sum{};
};

template <class Element>
__attribute__((always_inline)) inline void add_block(const Head<Element>& head, const Element* const* keys, int n,
                                                     float scale, Softmax& state) {
  std::array<float, kBlockSlots> scores;
  scores.fill(-std::numeric_limits<float>::infinity());
  for (int slot = 0; slot < n; ++slot) {
    std::array<float, kLanes> lanes{};
    for (int d = 0; d < head.head_dim; d += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += head.q[d + lane] * widen(keys[slot][d + lane]);
    }
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
    }
    scores[slot] = lanes[0] * scale;
  }
  float best = state.best;
  for (float score : scores) best = std::max(best, score);
  const float keep = exp_negative(state.best - best);
  for (float& score : scores) score = exp_negative(score - best);
  for (int d = 0; d < head.head_dim; ++d) state.sum[d] *= keep;
  state.total *= keep;
  for (int slot = 0; slot < n; ++slot) {
    const Element* value = keys[slot] + head.value_offset;
    state.total += scores[slot];
    for (int d = 0; d < head.head_dim; ++d) state.sum[d] += scores[slot] * widen(value[d]);
  }
  state.best = best;
}

template <class Element>
__attribute__((always_inline)) inline void attend(const Head<Element>& head, const AttentionRow& row, float scale,
                                                  float* out) {
  Softmax state;
  std::array<const Element*, kBlockSlots> keys{};
  int n = 0;
  for (std::int32_t slot = next_visible(row, 0); slot >= 0; slot = next_visible(row, slot + 1)) {
    keys[n++] = head.key(row, slot);
    if (n == kBlockSlots) {
      add_block(head, keys.data(), n, scale, state);
      n = 0;
    }
  }
  if (n > 0) add_block(head, keys.data(), n, scale, state);
  const float inverse = 1.0F / state.total;
  for (int d = 0; d < head.head_dim; ++d) out[d] = state.sum[d] * inverse;
}

SLIP_CLONES void attend_bf16(const Head<std::uint16_t>& head, const AttentionRow& row, float scale, float* out) {
  attend(head, row, scale, out);
}

SLIP_CLONES void attend_f32(const Head<float>& head, const AttentionRow& row, float scale, float* out) {
  attend(head, row, scale, out);
}

template <class Element>
Head<Element> make_head(const PagedKv& kv, const float* q, int kv_head) {
  const std::int64_t per_head = std::int64_t{kv.page_tokens} * kv.head_dim;
  return {q,
          static_cast<const std::byte*>(kv.base),
          kv.page_stride_bytes,
          kv_head * per_head,
          kv.n_kv_heads * per_head,
          kv.page_tokens,
          kv.head_dim};
}

}  // namespace

void paged_attention(const float* q, std::int64_t q_stride, const PagedKv& kv, std::span<const AttentionRow> rows,
                     int n_heads, float scale, float* out, std::int64_t out_stride, ThreadPool& pool) {
  SLIP_CHECK(kv.head_dim <= kMaxHeadDim && kv.head_dim % kLanes == 0, "the model's head_dim was not checked at load");
  const int group = n_heads / kv.n_kv_heads;
  pool.parallel_for(rows.size() * static_cast<std::size_t>(kv.n_kv_heads), [&](std::size_t index, int) {
    const auto row = static_cast<std::int64_t>(index) / kv.n_kv_heads;
    const int kv_head = static_cast<int>(static_cast<std::int64_t>(index) % kv.n_kv_heads);
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const float* query = q + row * q_stride + std::int64_t{head} * kv.head_dim;
      float* result = out + row * out_stride + std::int64_t{head} * kv.head_dim;
      if (kv.dtype == Dtype::kFloat32) {
        attend_f32(make_head<float>(kv, query, kv_head), rows[row], scale, result);
      } else {
        attend_bf16(make_head<std::uint16_t>(kv, query, kv_head), rows[row], scale, result);
      }
    }
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
