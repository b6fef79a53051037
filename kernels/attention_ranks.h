// SPDX-License-Identifier: Apache-2.0
// Map a block of visible ranks to cache slots, for whole tiles of rows, and slots to addresses; included by the
// attention source files. Keys are taken in blocks of kSlots visible ranks, counted from a row's first visible slot.
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/lanes.h"

namespace slip::kernels {
namespace {

// A range of ranks, relative to the block's first.
struct RankRange {
  int begin, end;
};

// A position in the visible ranges.
struct RangeCursor {
  std::size_t range = 0;
  std::int32_t first_rank = 0;  // first rank of that range
};

// The next ancestor bit of a row to examine, and the rank of the first set bit from there on.
struct AncestorCursor {
  std::int32_t next_bit = 0;
  std::int32_t next_rank = 0;
};

// The slots of a block, by rank. Each of [begin, n) is visible to some row, except ranks between two rows' windows.
template <int kSlots>
struct BlockSlots {
  std::int32_t slots[kSlots];
  int begin = 0, n = 0;
};

// The union of the ranks that the tile's rows see, [begin, end); begin is rounded down to a block.
struct TileRanks {
  std::int32_t begin, end;
};

// A row's visible ranks in the block that begins at rank `first`. Empty (begin >= end): none.
template <int kSlots>
SLIP_LANES RankRange ranks_in_block(const AttentionRowView& row, std::int32_t first) {
  const std::int32_t begin = row.first_visible - first, end = row.n_visible - first;
  return {begin > 0 ? begin : 0, end < kSlots ? end : kSlots};
}
SLIP_LANES bool is_empty(RankRange ranks) {
  return ranks.begin >= ranks.end;
}
// True when the row sees the same slots of this block as a chain would.
template <int kSlots>
SLIP_LANES bool is_plain(const AttentionRowView& row, std::int32_t first) {
  return first + ranks_in_block<kSlots>(row, first).end <= row.n_plain;
}

// The slot of a rank < n_listed. Ranks passed with one cursor must ascend.
SLIP_LANES std::int32_t listed_slot(const AttentionTile& tile, std::int32_t rank, RangeCursor& cursor) {
  if (tile.n_visible_ranges == 0) return rank;
  for (;; ++cursor.range) {
    const SlotRange range = tile.visible[cursor.range];
    if (rank - cursor.first_rank < range.end - range.begin) return range.begin + rank - cursor.first_rank;
    cursor.first_rank += range.end - range.begin;
  }
}

// The slot of a rank < n_plain, equal for all rows of the tile. REQUIRES: the tile has visible ranges.
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

// The slots of the block that begins at rank `first`, for the rows that see it without gaps; n = 0 if there are none.
// `block_begin` is the cursor at `first`.
template <int kSlots>
SLIP_LANES void find_plain_slots(const AttentionTile& tile, std::int32_t first, RangeCursor block_begin,
                                 BlockSlots<kSlots>& block) {
  block.begin = kSlots;
  block.n = 0;
  for (int r = 0; r < tile.n_rows; ++r) {
    const RankRange ranks = ranks_in_block<kSlots>(tile.rows[r], first);
    if (is_empty(ranks) || !is_plain<kSlots>(tile.rows[r], first)) continue;
    block.begin = ranks.begin < block.begin ? ranks.begin : block.begin;
    block.n = ranks.end > block.n ? ranks.end : block.n;
  }
  if (tile.n_visible_ranges == 0) {
    for (int i = 0; i < kSlots; ++i) block.slots[i] = first + i;
  } else {
    for (int i = 0; i < block.n; ++i) block.slots[i] = plain_slot(tile, first + i, block_begin);
  }
}

// The slots of a tree row's block with gaps: its ancestors' set bits, in order.
template <int kSlots>
SLIP_LANES void find_gapped_slots(const AttentionTile& tile, std::int32_t first, const AttentionRowView& row,
                                  RangeCursor block_begin, AncestorCursor& at, BlockSlots<kSlots>& block) {
  const RankRange ranks = ranks_in_block<kSlots>(row, first);
  block.begin = ranks.begin;
  block.n = ranks.end;
  // Skip ranks in blocks without gaps, or before the window: they were not looked up.
  while (at.next_rank < first) take_bit(row, at);
  for (int i = 0; i < block.n; ++i) {
    const bool committed = first + i < row.n_listed;
    block.slots[i] = committed ? listed_slot(tile, first + i, block_begin) : row.n_committed + take_bit(row, at);
  }
}

template <int kSlots>
SLIP_LANES TileRanks ranks_of(const AttentionTile& tile) {
  TileRanks all{tile.rows[0].first_visible, 0};
  for (int r = 0; r < tile.n_rows; ++r) {
    all.begin = tile.rows[r].first_visible < all.begin ? tile.rows[r].first_visible : all.begin;
    all.end = tile.rows[r].n_visible > all.end ? tile.rows[r].n_visible : all.end;
  }
  all.begin = all.begin / kSlots * kSlots;
  return all;
}

constexpr std::int64_t kWordBytes = 4;
constexpr std::int64_t kLineBytes = kWordBytes * kLanes;
constexpr int kGroupSlots = kLanes;  // slots whose keys are multiplied at once

SLIP_LANES const std::byte* page_of(const AttentionTile& tile, std::int32_t slot) {
  return tile.keys + tile.pages[slot / tile.page_tokens] * tile.page_stride_bytes;
}
SLIP_LANES int values_a_word(const AttentionTile& tile) {
  return tile.dtype == Dtype::kBFloat16 ? 2 : 1;
}

// Slots of a group, from its index `first` on, whose keys are contiguous in lines.
struct SlotRun {
  const std::byte* keys;  // key of the first slot
  int first, n;
};
struct SlotRuns {
  SlotRun runs[kGroupSlots];
  int n = 0;
  bool together = false;  // one run that begins at a line's start
};

SLIP_LANES void find_runs(const AttentionTile& tile, const std::int32_t* slots, int n_slots, SlotRuns& found) {
  const int places = values_a_word(tile);
  const std::int64_t group_bytes = (tile.head_dim + places - 1) / places * kLineBytes;
  found.n = 0;
  for (int i = 0; i < n_slots;) {
    const std::int32_t in_page = slots[i] % tile.page_tokens, in_group = in_page % kGroupSlots;
    const int in_both =
        tile.page_tokens - in_page < kGroupSlots - in_group ? tile.page_tokens - in_page : kGroupSlots - in_group;
    const int most = in_both < n_slots - i ? in_both : n_slots - i;
    int n = most;  // slots ascend, so usually all of them are contiguous
    while (slots[i + n - 1] - slots[i] != n - 1) --n;
    const std::byte* group = page_of(tile, slots[i]) + in_page / kGroupSlots * group_bytes;
    found.runs[found.n++] = {group + in_group * kWordBytes, i, n};
    i += n;
  }
  found.together = found.n == 1 && slots[0] % tile.page_tokens % kGroupSlots == 0;
}

// The address of one slot's values: the same place in each word, sixteen dims per line.
struct SlotValues {
  const std::byte* words;
  std::int64_t stride;  // from 16 dims to the next 16
  int place;
};
SLIP_LANES SlotValues values_of(const AttentionTile& tile, std::int32_t slot) {
  const int places = values_a_word(tile), offset = slot % tile.page_tokens;
  return {page_of(tile, slot) + tile.values_offset_bytes + offset / places * kLineBytes,
          (tile.page_tokens + places - 1) / places * kLineBytes, offset % places};
}

SLIP_LANES int round_to_lanes(int n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}

constexpr std::int64_t kAllLines = std::int64_t{1} << 32;  // more than a page has

// Prefetches at most `most` lines of a head's keys and as many of its values in each page of the block that begins at
// rank `first`; past the tile's last rank, `end`, of the next tile's first block. Hardware cannot predict a page's
// address.
template <int kSlots>
SLIP_LANES void fetch_block(const AttentionTile& tile, std::int32_t first, std::int32_t end, std::int64_t most) {
  if (tile.n_visible_ranges != 0) return;
  const std::int64_t of_page = tile.values_offset_bytes / kLineBytes, n_lines = of_page < most ? of_page : most;
  const std::int32_t past = first - (end + kSlots - 1) / kSlots * kSlots;
  const bool is_next = past >= 0 && tile.next_pages != nullptr;
  const std::int32_t* pages = is_next ? tile.next_pages : tile.pages;
  const std::int32_t begin = is_next ? past + tile.next_first / kSlots * kSlots : first;
  const std::int32_t n_committed = is_next ? tile.next_committed : tile.rows[0].n_committed;
  for (std::int32_t slot = begin; slot < begin + kSlots && slot < n_committed; slot += tile.page_tokens) {
    const std::byte* keys = tile.keys + pages[slot / tile.page_tokens] * tile.page_stride_bytes;
    for (std::int64_t line = 0; line < n_lines; ++line) {
      __builtin_prefetch(keys + line * kLineBytes, 0, 2);
      __builtin_prefetch(keys + tile.values_offset_bytes + line * kLineBytes, 0, 2);
    }
  }
}

// Calls attend_block(tile, first, sees, block, state) for every block that some row sees; `first` is the block's first
// rank. First for all rows that see it without gaps, then once for each row that sees it with gaps.
template <class Block, class State>
void attend_blocks(const AttentionTile& tile, Block& block, State& state) {
  RangeCursor block_begin;
  AncestorCursor ancestors[kAttentionTileRows];
  for (int r = 0; r < tile.n_rows; ++r) ancestors[r] = {0, tile.rows[r].n_listed};
  constexpr int kSlots = Block::kSlots;
  const TileRanks ranks = ranks_of<kSlots>(tile);
  for (std::int32_t first = ranks.begin; first < ranks.end; first += kSlots) {
    fetch_block<kSlots>(tile, first + Block::kBlocksAhead * kSlots, ranks.end, Block::kFetchedLines);
    if (first < tile.rows[0].n_listed) listed_slot(tile, first, block_begin);
    const auto is_plain_to = [&](int r) { return is_plain<kSlots>(tile.rows[r], first); };
    find_plain_slots(tile, first, block_begin, block.at);
    if (block.at.n > 0) attend_block(tile, first, is_plain_to, block, state);
    for (int r = 0; r < tile.n_rows; ++r) {
      if (is_empty(ranks_in_block<kSlots>(tile.rows[r], first)) || is_plain_to(r)) continue;
      find_gapped_slots(tile, first, tile.rows[r], block_begin, ancestors[r], block.at);
      attend_block(
          tile, first, [&](int other) { return other == r; }, block, state);
    }
  }
}

}  // namespace
}  // namespace slip::kernels
