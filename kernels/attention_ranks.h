// SPDX-License-Identifier: Apache-2.0
// Which slots a block of visible ranks holds, for whole tiles of rows; included by the source files that attend.
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/lanes.h"

namespace slip::kernels {
namespace {

// Keys are taken in blocks of so many visible ranks, counted from a row's first visible slot.
constexpr int kBlockSlots = 32;

// Ranks of a block, counted from its first.
struct RankRange {
  int begin, end;
};

// Where the walk along the visible ranges stands.
struct RangeCursor {
  std::size_t range = 0;
  std::int32_t first_rank = 0;  // of that range
};

// The next of a row's ancestors not looked at yet, and the rank of the first set bit from there on.
struct AncestorCursor {
  std::int32_t next_bit = 0;
  std::int32_t next_rank = 0;
};

// The slots of a block, by rank; somebody sees each of [begin, n), unless windows leave some out between.
struct BlockSlots {
  std::int32_t slots[kBlockSlots];
  int begin = 0, n = 0;
};

// Ranks that any row of the tile sees lie in [begin, end); begin is rounded down to a block.
struct TileRanks {
  std::int32_t begin, end;
};

// Empty (begin >= end) when the row sees nothing of the block that begins at rank `first`.
SLIP_LANES RankRange ranks_in_block(const AttentionRowView& row, std::int32_t first) {
  const std::int32_t begin = row.first_visible - first, end = row.n_visible - first;
  return {begin > 0 ? begin : 0, end < kBlockSlots ? end : kBlockSlots};
}
SLIP_LANES bool is_empty(RankRange ranks) {
  return ranks.begin >= ranks.end;
}
// The row's visible slots of this block are those that a chain would see.
SLIP_LANES bool is_plain(const AttentionRowView& row, std::int32_t first) {
  return first + ranks_in_block(row, first).end <= row.n_plain;
}

// The slot of a rank < n_listed; ranks asked of one cursor ascend.
SLIP_LANES std::int32_t listed_slot(const AttentionTile& tile, std::int32_t rank, RangeCursor& cursor) {
  if (tile.n_visible_ranges == 0) return rank;
  for (;; ++cursor.range) {
    const SlotRange range = tile.visible[cursor.range];
    if (rank - cursor.first_rank < range.end - range.begin) return range.begin + rank - cursor.first_rank;
    cursor.first_rank += range.end - range.begin;
  }
}

// The slot of a rank < n_plain, the same for all rows of the tile; there are ranges.
SLIP_LANES std::int32_t plain_slot(const AttentionTile& tile, std::int32_t rank, RangeCursor& cursor) {
  const AttentionRowView& any = tile.rows[0];
  if (rank < any.n_listed) return listed_slot(tile, rank, cursor);
  return any.n_committed + rank - any.n_listed;
}

SLIP_LANES std::int32_t take_bit(const AttentionRowView& row, AncestorCursor& at) {
  while ((row.ancestors[at.next_bit / 64] >> (at.next_bit % 64) & 1) == 0) ++at.next_bit;
  ++at.next_rank;
  return at.next_bit++;
}

// The slots of the block that begins at rank `first` for the rows to which it is plain; n = 0 when there is none.
// `block_begin` stands at `first`.
SLIP_LANES void find_plain_slots(const AttentionTile& tile, std::int32_t first, RangeCursor block_begin,
                                 BlockSlots& block) {
  block.begin = kBlockSlots;
  block.n = 0;
  for (int r = 0; r < tile.n_rows; ++r) {
    const RankRange ranks = ranks_in_block(tile.rows[r], first);
    if (is_empty(ranks) || !is_plain(tile.rows[r], first)) continue;
    block.begin = ranks.begin < block.begin ? ranks.begin : block.begin;
    block.n = ranks.end > block.n ? ranks.end : block.n;
  }
  if (tile.n_visible_ranges == 0) {
    for (int i = 0; i < kBlockSlots; ++i) block.slots[i] = first + i;
  } else {
    for (int i = 0; i < block.n; ++i) block.slots[i] = plain_slot(tile, first + i, block_begin);
  }
}

// Of a tree row's block with gaps: those of its ancestors' set bits, in order.
SLIP_LANES void find_gapped_slots(const AttentionTile& tile, std::int32_t first, const AttentionRowView& row,
                                  RangeCursor block_begin, AncestorCursor& at, BlockSlots& block) {
  const RankRange ranks = ranks_in_block(row, first);
  block.begin = ranks.begin;
  block.n = ranks.end;
  // Ranks of blocks that were plain, or before the window, have not been looked up.
  while (at.next_rank < first) take_bit(row, at);
  for (int i = 0; i < block.n; ++i) {
    const bool committed = first + i < row.n_listed;
    block.slots[i] = committed ? listed_slot(tile, first + i, block_begin) : row.n_committed + take_bit(row, at);
  }
}

SLIP_LANES TileRanks ranks_of(const AttentionTile& tile) {
  TileRanks all{tile.rows[0].first_visible, 0};
  for (int r = 0; r < tile.n_rows; ++r) {
    all.begin = tile.rows[r].first_visible < all.begin ? tile.rows[r].first_visible : all.begin;
    all.end = tile.rows[r].n_visible > all.end ? tile.rows[r].n_visible : all.end;
  }
  all.begin = all.begin / kBlockSlots * kBlockSlots;
  return all;
}

SLIP_LANES const std::byte* slot_address(const AttentionTile& tile, const std::int32_t* pages, std::int32_t slot,
                                         std::int64_t slot_bytes) {
  return tile.keys + pages[slot / tile.page_tokens] * tile.page_stride_bytes + slot % tile.page_tokens * slot_bytes;
}
SLIP_LANES const std::byte* slot_address(const AttentionTile& tile, std::int32_t slot, std::int64_t slot_bytes) {
  return slot_address(tile, tile.pages, slot, slot_bytes);
}

SLIP_LANES int round_to_lanes(int n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}

// Every block of the tile that anybody sees, by attend_block(tile, first, sees, block, state), `first` being its first
// rank: for the rows to which it is plain, then for each row that sees it with gaps.
template <class Block, class State>
void attend_blocks(const AttentionTile& tile, Block& block, State& state) {
  RangeCursor block_begin;
  AncestorCursor ancestors[kAttentionTileRows];
  for (int r = 0; r < tile.n_rows; ++r) ancestors[r] = {0, tile.rows[r].n_listed};
  const TileRanks ranks = ranks_of(tile);
  for (std::int32_t first = ranks.begin; first < ranks.end; first += kBlockSlots) {
    if (first < tile.rows[0].n_listed) listed_slot(tile, first, block_begin);
    const auto is_plain_to = [&](int r) { return is_plain(tile.rows[r], first); };
    find_plain_slots(tile, first, block_begin, block.at);
    if (block.at.n > 0) attend_block(tile, first, is_plain_to, block, state);
    for (int r = 0; r < tile.n_rows; ++r) {
      if (is_empty(ranks_in_block(tile.rows[r], first)) || is_plain_to(r)) continue;
      find_gapped_slots(tile, first, tile.rows[r], block_begin, ancestors[r], block.at);
      attend_block(
          tile, first, [&](int other) { return other == r; }, block, state);
    }
  }
}

}  // namespace
}  // namespace slip::kernels
