// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "common/tensor_view.h"
#include "kernels/thread_pool.h"

namespace slip::kernels {

// One layer's paged keys and values, in the layout that the products read: lines of sixteen 32-bit words, each one
// float32 or p = 2 bfloat16. A page holds, for each kv head, first its keys, words [page_tokens / 16][head_dim / p][16
// slots] of p neighbouring dims. Then come its values, words [head_dim / 16][page_tokens / p][16 dims] of p
// neighbouring slots. Sizes are rounded up to multiples of 16 and of p.
//
// An AMX tile register loads sixteen such lines without a transposition, so one kernel serves 1 query and 100. A page
// of 32 slots is the depth of one product over values. Only slots that do not lie side by side in lines are copied
// first: a tree's, the edges of a range; with AMX the last ones, too.
struct PagedKv {
  void* base = nullptr;  // page p of this layer starts at base + p * page_stride_bytes
  std::int64_t page_stride_bytes = 0;
  Dtype dtype = Dtype::kBFloat16;  // kBFloat16 or kFloat32
  int n_kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 32;  // multiples of 32 are read in place
};
std::int64_t layer_page_bytes(const PagedKv& kv);  // bytes of one page of this layer

// Cache slots [begin, end).
struct SlotRange {
  std::int32_t begin = 0, end = 0;
};

// The keys that one query row sees. Slot s of a sequence lies in page pages[s / page_tokens] at offset s % page_tokens.
// The row sees the slots before n_committed that lie in `visible` (empty: all of them). After those, in ascending
// order, it sees each slot n_committed + i whose bit i is set in `ancestors`, its own included. An empty `ancestors`
// means all slots up to its own (a chain).
// A `window` other than 0 keeps only the last `window` of these positions. A committed slot's position is its index;
// the j-th ancestor's is n_committed + j. A row thus sees the same positions whether its predecessors are committed or
// rows of this step.
struct AttentionRow {
  const std::int32_t* pages = nullptr;
  std::int32_t n_committed = 0;  // number of cache slots before this step's rows
  std::int32_t own_index = 0;    // index among its sequence's rows of this step
  std::span<const std::uint64_t> ancestors;
  std::int32_t window = 0;  // 0: all
  // Ascending, disjoint, within [0, n_committed), such as attention sinks plus a window; empty: all
  std::span<const SlotRange> visible;
};

// out [n_rows, n_heads * head_dim] = softmax(q kᵀ · scale) v, float32 accumulation, grouped-query: query head h reads
// kv head h / (n_heads / n_kv_heads). q, out: float32, row strides in elements; scale > 0.
// Batch-invariant: a row accumulates over its visible slots in ascending order, in blocks counted by visible rank from
// the first visible slot. Page layout, other rows and prompt chunking cannot change a bit. A `visible` that lists all
// slots gives the same bits as an empty one.
// With bfloat16 keys, classes with products of bfloat16 (AMX, AVX512-BF16) round queries and softmax weights to it too.
void paged_attention(const float* q, std::int64_t q_stride, const PagedKv& kv, std::span<const AttentionRow> rows,
                     int n_heads, float scale, float* out, std::int64_t out_stride, ThreadPool& pool);

// Stores one row's k and v (float32 [n_kv_heads * head_dim] each) at a cache slot. An element of v that is not finite
// is stored as 0, and its head's key as NaN: only rows that see the slot get NaN.
void store_kv(const PagedKv& kv, std::int32_t page, int offset, const float* k, const float* v);
// Copies one slot's keys and values of this layer; source and destination may be the same slot.
void copy_kv(const PagedKv& kv, std::int32_t from_page, int from_offset, std::int32_t to_page, int to_offset);

}  // namespace slip::kernels
