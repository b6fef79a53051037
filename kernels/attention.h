// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "common/tensor_view.h"
#include "kernels/thread_pool.h"

namespace slip::kernels {

// One layer's paged keys and values, in the form in which products take them: lines of sixteen 32-bit words, each of
// one float32 or of p = 2 bfloat16. A page holds for each kv head its keys, words [page_tokens / 16][head_dim / p][16
// slots] of p neighbouring dims, and then its values, words [head_dim / 16][page_tokens / p][16 dims] of p neighbouring
// slots. What 16 or p does not divide is rounded up.
//
// A tile register of AMX loads sixteen such lines as they are, so one kernel serves one query and a hundred without a
// transposition. A page of 32 slots is the depth of one product over values. Only slots that do not fill whole lines
// are copied first: a tree's, a range's edges, the last ones.
struct PagedKv {
  void* base = nullptr;  // page p of this layer starts at base + p * page_stride_bytes
  std::int64_t page_stride_bytes = 0;
  Dtype dtype = Dtype::kBFloat16;  // kBFloat16 or kFloat32
  int n_kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 32;  // those that 32 divides are read where they lie
};
std::int64_t layer_page_bytes(const PagedKv& kv);  // of one page of this layer

// Cache slots [begin, end).
struct SlotRange {
  std::int32_t begin = 0, end = 0;
};

// Which keys one query row sees. Slot s of a sequence lies in page pages[s / page_tokens] at offset s % page_tokens.
// The row sees those slots before n_committed that lie in `visible` (empty: all of them), then, in ascending order,
// those slots n_committed + i whose bit i is set in `ancestors` (its own included). An empty `ancestors` means all up
// to its own (a chain). Of these it sees the last `window` positions only, when that is not 0: a committed slot holds
// the position of its number, and the j-th ancestor position n_committed + j, so a row sees the same positions whether
// its predecessors are committed or rows of this step.
struct AttentionRow {
  const std::int32_t* pages = nullptr;
  std::int32_t n_committed = 0;  // cache slots before this step's rows
  std::int32_t own_index = 0;    // index of this row among its sequence's rows of this step
  std::span<const std::uint64_t> ancestors;
  std::int32_t window = 0;             // 0: all
  std::span<const SlotRange> visible;  // ascending, disjoint, within [0, n_committed): sinks and a window, or pages
};

// out [n_rows, n_heads * head_dim] = softmax(q kᵀ · scale) v, float32 accumulation, grouped-query (query head h reads
// kv head h / (n_heads / n_kv_heads)). Batch-invariant: a row's result is accumulated over its visible slots in
// ascending order in blocks counted by visible rank from the first visible slot, with or without a window, so neither
// the page layout, nor the other rows, nor the way a prompt was chunked can change a bit, and a subset of everything
// gives the bits of no subset. q, out: float32, row strides in elements; scale > 0. With bfloat16 keys, AMX takes the
// queries and the softmax weights in bfloat16 as well, as it multiplies nothing else.
void paged_attention(const float* q, std::int64_t q_stride, const PagedKv& kv, std::span<const AttentionRow> rows,
                     int n_heads, float scale, float* out, std::int64_t out_stride, ThreadPool& pool);

// Stores one row's k and v (float32 [n_kv_heads * head_dim] each) at a cache slot.
void store_kv(const PagedKv& kv, std::int32_t page, int offset, const float* k, const float* v);
// One slot's keys and values of this layer; a slot may be its own copy.
void copy_kv(const PagedKv& kv, std::int32_t from_page, int from_offset, std::int32_t to_page, int to_offset);

}  // namespace slip::kernels
