// SPDX-License-Identifier: Apache-2.0
// The operands of device attention, and the map from a row's visible ranks to cache slots.
#pragma once

#include "kernels/cuda/rows.cuh"

namespace slip::kernels::cuda {

inline constexpr int kAttentionThreads = 256;
using AttentionBlock = Block<kAttentionThreads>;
inline constexpr int kWarpRanks = 32;  // one rank per lane
inline constexpr int kSplitRanks = AttentionBlock::kWarps * kWarpRanks;
inline constexpr int kTileQueries = 16;  // rows of the matrix instruction's first operand: heads times rows of a tile

// Rows [first_row, first_row + n_rows) of one sequence, with the same visible ranges; n_rows 0: nothing to do. The rows
// times Attention::heads_a_tile are at most kTileQueries.
struct AttentionTileRows {
  std::int32_t first_row = 0, n_rows = 0;
};

struct Attention {
  const float* q = nullptr;  // [n_rows, n_heads * head_dim]
  std::int64_t q_stride = 0;
  DeviceKv kv;
  const DeviceRow* rows = nullptr;
  const AttentionTileRows* tiles = nullptr;
  std::int32_t n_heads = 0;
  std::int32_t heads_a_tile = 0;  // query heads per tile, all of one key head
  float scale = 0;
  bool whole = true;          // one block runs all splits and writes the result
  std::int32_t n_splits = 0;  // the number of splits of the longest possible row
  float* partial = nullptr;   // unless whole: [n_rows, n_heads, n_splits, head_dim + 2]
  float* out = nullptr;       // [n_rows, n_heads * head_dim]; null: not wanted
  std::int64_t out_stride = 0;
  std::uint16_t* activations = nullptr;  // the result as activations of the output product; null: not wanted

  // Query heads of one key head, and the tiles that these take.
  SLIP_DEVICE std::int32_t group() const { return n_heads / kv.n_kv_heads; }
  SLIP_DEVICE std::int32_t stretches() const { return (group() + heads_a_tile - 1) / heads_a_tile; }
  SLIP_DEVICE std::int64_t width() const { return std::int64_t{n_heads} * kv.head_dim; }
  SLIP_DEVICE float* partial_of(std::int64_t row, std::int32_t head, std::int32_t split) const {
    return partial + ((row * n_heads + head) * n_splits + split) * (kv.head_dim + 2);
  }
};

struct Ranks {
  std::int32_t begin, end;
};

// A row's visible slots by rank. Ranks below n_listed are its visible committed slots; those up to n_plain are the
// following slots in order, as in a chain; later ranks follow the set bits of `ancestors`.
struct RankView {
  std::int32_t n_committed, n_listed, n_plain, first_visible, n_visible;
};

// How many of the row's committed slots before `slot` are visible to it.
SLIP_DEVICE std::int32_t listed_before(const DeviceRow& row, std::int32_t slot) {
  if (row.n_ranges == 0) return slot;
  std::int32_t n = 0;
  for (std::int32_t i = 0; i < row.n_ranges; ++i) {
    const DeviceRange range = row.visible[i];
    const std::int32_t end = range.end < slot ? range.end : slot;
    n += end > range.begin ? end - range.begin : 0;
  }
  return n;
}

SLIP_DEVICE RankView view_of(const DeviceRow& row) {
  RankView view{row.n_committed, listed_before(row, row.n_committed), 0, 0, 0};
  std::int32_t n_leading = row.own_index + 1, n_of_step = row.own_index + 1;
  if (row.n_words > 0) {
    bool leading = true;
    n_leading = n_of_step = 0;
    for (std::int32_t i = 0; i < row.n_words; ++i) {
      const std::uint64_t word = row.ancestors[i];
      n_of_step += count_bits(word);
      if (leading) n_leading += count_bits(word & ~(word + 1));  // the bits below the lowest zero
      leading = leading && ~word == 0;
    }
  }
  view.n_plain = view.n_listed + n_leading;
  view.n_visible = view.n_listed + n_of_step;
  const std::int32_t n_positions = row.n_committed + n_of_step;
  if (row.window > 0 && n_positions > row.window) {
    const std::int32_t oldest = n_positions - row.window;  // position in the window
    view.first_visible =
        oldest < row.n_committed ? listed_before(row, oldest) : view.n_listed + oldest - row.n_committed;
  }
  return view;
}

SLIP_DEVICE std::int32_t slot_of_rank(const DeviceRow& row, const RankView& view, std::int32_t rank) {
  if (rank < view.n_listed) {
    if (row.n_ranges == 0) return rank;
    std::int32_t range = 0;
    for (; rank >= row.visible[range].end - row.visible[range].begin; ++range) {
      rank -= row.visible[range].end - row.visible[range].begin;
    }
    return row.visible[range].begin + rank;
  }
  std::int32_t left = rank - view.n_listed;  // number of set bits to skip
  if (rank < view.n_plain) return row.n_committed + left;
  std::int32_t word = 0;
  while (count_bits(row.ancestors[word]) <= left) left -= count_bits(row.ancestors[word++]);
  std::uint64_t bits = row.ancestors[word];
  for (; left > 0; --left) bits &= bits - 1;
  const std::uint64_t lowest = bits & (~bits + 1);
  return row.n_committed + word * 64 + count_bits(lowest - 1);
}

// The visible ranks among a warp's 32 from `first` on, counted from there; begin ≥ end: none.
SLIP_DEVICE Ranks ranks_of_warp(const RankView& view, std::int32_t first) {
  const std::int32_t begin = view.first_visible - first, end = view.n_visible - first;
  return {begin > 0 ? begin : 0, end < kWarpRanks ? end : kWarpRanks};
}
SLIP_DEVICE bool sees(const RankView& view, std::int32_t first) {
  const Ranks ranks = ranks_of_warp(view, first);
  return ranks.begin < ranks.end;
}
// Whether these ranks are the same slots for every row that is plain here.
SLIP_DEVICE bool is_plain(const RankView& view, std::int32_t first) {
  return first + ranks_of_warp(view, first).end <= view.n_plain;
}

}  // namespace slip::kernels::cuda
