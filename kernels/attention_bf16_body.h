// SPDX-License-Identifier: Apache-2.0
// What the two ways of attending over bfloat16 share on a machine with AMX: in tile registers (attention_amx_body.h),
// which are worth filling for many queries, and in vectors (attention_narrow_body.h) for a few. They give the same bits
// by doing the same arithmetic in the same order, so a row may go either way.
#pragma once

#include "kernels/attention_ranks.h"

namespace slip::kernels {
namespace {

constexpr int kDimsAtOnce = 32;  // of keys and queries, that one product sums over
constexpr int kGroupSlots = 16;  // whose keys are multiplied at once
constexpr int kSlotGroups = kBlockSlots / kGroupSlots;
constexpr int kBlocksAhead = 4;  // that fetching is before its use

SLIP_LANES int round_to_dims_at_once(int n) {
  return (n + kDimsAtOnce - 1) / kDimsAtOnce * kDimsAtOnce;
}
SLIP_LANES int n_queries(const AttentionTile& tile) {
  return tile.n_rows * tile.n_heads;
}
SLIP_LANES __mmask16 first_lanes(int n) {
  return static_cast<__mmask16>((1U << (n < kLanes ? n : kLanes)) - 1);
}

// TDPBF16PS takes denormal numbers for zeros and makes none, whatever MXCSR says (Intel's manual): so do the vectors
// around it and in its place.
class FlushDenormals {
 public:
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero); }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x40;
  unsigned before_;
};

// Eight of a row's values, as many as it has.
struct WholeEight {
  SLIP_LANES __m128i operator()(const std::byte* at) const {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  }
};
struct FirstOfEight {
  __mmask8 mask;
  SLIP_LANES __m128i operator()(const std::byte* at) const { return _mm_maskz_loadu_epi16(mask, at); }
};
template <class Turn>
SLIP_LANES void for_eight(int left, const Turn& turn) {
  if (left >= 8) return turn(WholeEight{});
  turn(FirstOfEight{static_cast<__mmask8>(left > 0 ? (1 << left) - 1 : 0)});
}
// rows[0], rows[apart] … from `offset` bytes on, eight values and a quarter each.
template <class Eight>
SLIP_LANES __m512i four_rows(const std::byte* const* rows, int apart, std::int64_t offset, const Eight& eight) {
  __m512i all = _mm512_castsi128_si512(eight(rows[0] + offset));
  all = _mm512_mask_broadcast_i32x4(all, 0x00F0, eight(rows[apart] + offset));
  all = _mm512_mask_broadcast_i32x4(all, 0x0F00, eight(rows[2 * apart] + offset));
  return _mm512_mask_broadcast_i32x4(all, 0xF000, eight(rows[3 * apart] + offset));
}

alignas(64) constexpr std::byte kZeroRow[kMaxHeadDim * 2] = {};

// Where the keys and values of a block's slots are. Those of slots that nobody sees may be no number: in their place
// stand any others' keys, whose scores will not matter, and zeros, since no weight makes nothing of such a value.
struct BlockRows {
  const std::byte* keys[kBlockSlots];
  const std::byte* values[kBlockSlots];
  bool together[kSlotGroups];  // the group's keys follow each other
};

// Slots ascend, so that their ends tell whether they follow each other.
void find_rows(const AttentionTile& tile, const BlockSlots& block, BlockRows& rows) {
  const std::int64_t slot_bytes = std::int64_t{tile.head_dim} * 2;
  for (int first = 0; first < kBlockSlots; first += kGroupSlots) {
    const std::int32_t* slots = block.slots + first;
    const int n = block.n - first < kGroupSlots ? block.n - first : kGroupSlots;
    const bool one_page =
        n > 0 && slots[n - 1] - slots[0] == n - 1 && slots[0] % tile.page_tokens + kGroupSlots <= tile.page_tokens;
    rows.together[first / kGroupSlots] = one_page;
    const std::byte* page = one_page ? slot_address(tile, slots[0], slot_bytes) : nullptr;
    for (int i = 0; i < kGroupSlots; ++i) {
      const bool is_there = i < n;
      const std::byte* keys = one_page   ? page + i * slot_bytes
                              : is_there ? slot_address(tile, slots[i], slot_bytes)
                                         : rows.keys[0];
      rows.keys[first + i] = keys;
      rows.values[first + i] = is_there && first + i >= block.begin ? keys + tile.values_offset_bytes : kZeroRow;
    }
  }
}

// Keys of a block that comes soon, for fetching; null where none are known. They and their values lie in places that no
// processor guesses.
struct KeysAhead {
  const std::byte* keys[kSlotGroups] = {};
};

// Those wanted soon after the block whose first rank is `first`: behind this tile's last rank, `end`, those of the next
// tile.
KeysAhead find_ahead(const AttentionTile& tile, std::int32_t first, std::int32_t end) {
  first += kBlocksAhead * kBlockSlots;
  KeysAhead ahead;
  if (tile.n_visible_ranges != 0) return ahead;
  const std::int32_t past = first - (end + kBlockSlots - 1) / kBlockSlots * kBlockSlots;
  const bool is_next = past >= 0 && tile.next_pages != nullptr;
  const std::int32_t* pages = is_next ? tile.next_pages : tile.pages;
  const std::int32_t n_committed = is_next ? tile.next_committed : tile.rows[0].n_committed;
  for (int group = 0; group < kSlotGroups; ++group) {
    const std::int32_t slot = (is_next ? past : first) + group * kGroupSlots;
    if (slot >= n_committed) continue;
    ahead.keys[group] = slot_address(tile, pages, slot, std::int64_t{tile.head_dim} * 2);
  }
  return ahead;
}

// One line of keys and one of values at a time, between other work: a whole block at once would fill every queue. A
// group has head_dim / 2 lines of each.
SLIP_LANES void fetch_line(const AttentionTile& tile, const KeysAhead& ahead, int line) {
  static_assert(kSlotGroups == 2);
  const int n = tile.head_dim / kSlotGroups, group = line < n ? 0 : 1;
  if (line >= kSlotGroups * n || ahead.keys[group] == nullptr) return;
  const std::byte* at = ahead.keys[group] + (line - group * n) * 64;
  __builtin_prefetch(at, 0, 2);
  __builtin_prefetch(at + tile.values_offset_bytes, 0, 2);
}

SLIP_LANES Lanes where(__mmask16 mask, const Lanes& yes, const Lanes& no) {
  return {_mm512_mask_blend_ps(mask, no.part[0], yes.part[0])};
}

// 2^x for x up to about 0: 2^n · 2^r, n the integer below and a polynomial of degree 4 in r that is 1 at 0, fitted to
// the least relative error, 2.9e-6: far below the rounding to bfloat16 that follows. Zero below −149; NaN is kept.
SLIP_LANES Lanes power_of_two(const Lanes& x) {
  constexpr int kBelow = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  const Part zero{}, bounded = _mm512_max_ps(zero - 160.0F, x.part[0]);  // gives the second where one is NaN
  const Part r = _mm512_reduce_ps(bounded, kBelow);
  Part sum = zero + 0x1.b7f81ep-7F;
  sum = fused(sum, r, zero + 0x1.abf80ap-5F);
  sum = fused(sum, r, zero + 0x1.ee245cp-3F);
  sum = fused(sum, r, zero + 0x1.62d6c6p-1F);
  sum = fused(sum, r, zero + 1.0F);
  return {_mm512_scalef_ps(sum, bounded)};  // of its second it takes the integer below
}

// Where the softmax of some queries stands. `most` is the greatest score so far, in units in which a weight is a power
// of two, and `total` the sum of the weights relative to it.
struct SoftmaxStep {
  Lanes base;    // what the weights of this block are relative to
  Lanes shrink;  // the factor of what was summed before; 1 where nothing greater came
};
// `greatest` are the block's greatest scores before scaling.
SLIP_LANES SoftmaxStep raise(const Lanes& greatest, const Lanes& scale, Lanes& most) {
  const Lanes least = broadcast(-__builtin_inff()), top = larger(most, greatest * scale);
  const __mmask16 grows = _mm512_cmp_ps_mask(top.part[0], most.part[0], _CMP_GT_OQ);
  // A query that has seen nothing yet has no greatest score, and infinities have no difference.
  const Lanes base = where(_mm512_cmp_ps_mask(top.part[0], least.part[0], _CMP_EQ_OQ), broadcast(0), top);
  const Lanes shrink = where(grows, power_of_two(most - base), broadcast(1));
  most = top;
  return {base, shrink};
}
SLIP_LANES Lanes softmax_scale(const AttentionTile& tile) {
  constexpr float kLog2E = 1.44269504F;
  return broadcast(tile.scale * kLog2E);
}
// Scaled and rounded first, as the greatest was: fused, a great score would differ from itself by its rounding.
SLIP_LANES Lanes softmax_weight(const Lanes& score, const Lanes& scale, const Lanes& base) {
  return power_of_two(score * scale - base);
}

}  // namespace
}  // namespace slip::kernels
