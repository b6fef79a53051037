// SPDX-License-Identifier: Apache-2.0
// Attention over a bfloat16 cache with VDPBF16PS, included by the class that has it.
//
// The products read the cache's words as they lie in the page: pairs of dimensions for scores, pairs of slots for
// outputs. Queries and softmax weights are rounded to bfloat16, as with AMX; sums and the softmax stay float32. On a
// Zen 5 a prompt's 256 rows took 0.7 times as long as with widened products, 16 rows of four sequences 0.8.
#pragma once

#include "kernels/attention_body.h"

namespace slip::kernels {
namespace {

// Words of a block that does not lie in one page, in a page's order.
struct PairBlock {
  static constexpr int kSlots = kBlockSlots;
  static constexpr int kBlocksAhead = 1;
  static constexpr std::int64_t kFetchedLines = kAllLines;
  alignas(64) std::byte keys[kGroups][kMaxHeadDim / 2][kLineBytes];
  alignas(64) std::byte values[kMaxHeadDim / kLanes][kBlockSlots / 2][kLineBytes];
  BlockSlots<kBlockSlots> at;
};

SLIP_LANES __m512i load_words(const std::byte* from) {
  return load_unaligned<__m512i>(from);
}

// One slot's values of sixteen dims, in the lower halves of the words.
SLIP_LANES __m512i values_of_slot(const SlotValues& slot, int d) {
  const __m512i words = load_words(slot.words + d / kLanes * slot.stride);
  return slot.place == 0 ? _mm512_and_si512(words, _mm512_set1_epi32(0xFFFF)) : _mm512_srli_epi32(words, 16);
}

void copy_words(const AttentionTile& tile, PairBlock& block) {
  for (int first = 0; first < block.at.n; first += kGroupSlots) {
    const int n = block.at.n - first < kGroupSlots ? block.at.n - first : kGroupSlots;
    SlotRuns slots;
    find_runs(tile, block.at.slots + first, n, slots);
    for (int pair = 0; pair < tile.head_dim / 2; ++pair) {
      store(reinterpret_cast<float*>(block.keys[first / kGroupSlots][pair]), key_words(slots, pair));
    }
  }
  for (int first = 0; first < block.at.n; first += 2) {
    const SlotValues lower = values_of(tile, block.at.slots[first]);
    const SlotValues upper = values_of(tile, block.at.slots[first + 1 < block.at.n ? first + 1 : first]);
    for (int d = 0; d < tile.head_dim; d += kLanes) {
      const __m512i words = _mm512_slli_epi32(values_of_slot(upper, d), 16) | values_of_slot(lower, d);
      _mm512_store_si512(block.values[d / kLanes][first / 2], words);
    }
  }
}

// A block's words, in the page or copied, which the products read without widening.
struct PairWords : BlockLines {};

SLIP_LANES PairWords words_of(const PairBlock& block) {
  PairWords copied;
  for (int g = 0; g < kGroups; ++g) copied.keys[g] = block.keys[g][0];
  copied.values = block.values[0][0];
  copied.stride = sizeof block.values[0];
  return copied;
}

template <int kQueries>
SLIP_LANES void score_queries(const AttentionTile& tile, const PairWords& block, const std::uint16_t* queries,
                              std::int64_t stride, float (*scores)[kBlockSlots]) {
  __m512 sums[kQueries][kGroups] = {};
  for (int d = 0; d < tile.head_dim; d += 2) {
    __m512bh keys[kGroups];
    for (int g = 0; g < kGroups; ++g) keys[g] = (__m512bh)load_words(block.keys[g] + d / 2 * kLineBytes);
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
      const auto query = (__m512bh)_mm512_set1_epi32(load_unaligned<int>(queries + i * stride + d));
      for (int g = 0; g < kGroups; ++g) sums[i][g] = _mm512_dpbf16_ps(sums[i][g], query, keys[g]);
    }
  }
  const __m512 scale = _mm512_set1_ps(tile.scale);
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    for (int g = 0; g < kGroups; ++g) _mm512_store_ps(scores[i] + g * kLanes, sums[i][g] * scale);
  }
}

// As add_values() of widened products.
template <int kQueries, int kDims>
SLIP_LANES void add_values(const PairWords& block, int dim, std::int64_t stride, RankRange ranks,
                           const float (*weights)[kBlockSlots], const float* shrink, float* to) {
  static_assert(kBlockSlots == 2 * kLanes);
  alignas(64) std::uint16_t rounded[kQueries][kBlockSlots];
  __m512 sums[kQueries][kDims];
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    const auto both = _mm512_cvtne2ps_pbh(_mm512_load_ps(weights[i] + kLanes), _mm512_load_ps(weights[i]));
    _mm512_store_si512(rounded[i], (__m512i)both);
#pragma GCC unroll 8
    for (int j = 0; j < kDims; ++j) {
      sums[i][j] = _mm512_loadu_ps(to + i * stride + j * kLanes) * _mm512_set1_ps(shrink[i]);
    }
  }
  // A slot outside the row's ranks has weight 0, but may hold anything: 0 · NaN is NaN.
  const auto add = [&](int slot, unsigned seen) __attribute__((always_inline)) {
    const __m512i seen_words = _mm512_set1_epi32(static_cast<int>(seen));
    __m512bh values[kDims];
#pragma GCC unroll 8
    for (int j = 0; j < kDims; ++j) {
      const std::byte* line = block.values + slot / 2 * kLineBytes + (dim / kLanes + j) * block.stride;
      values[j] = (__m512bh)_mm512_and_si512(load_words(line), seen_words);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
      const auto weight = (__m512bh)_mm512_set1_epi32(load_unaligned<int>(rounded[i] + slot));
#pragma GCC unroll 8
      for (int j = 0; j < kDims; ++j) sums[i][j] = _mm512_dpbf16_ps(sums[i][j], weight, values[j]);
    }
  };
  int slot = ranks.begin / 2 * 2;
  if (slot < ranks.begin) {
    add(slot, 0xFFFF0000U);
    slot += 2;
  }
  for (; slot + 1 < ranks.end; slot += 2) add(slot, 0xFFFFFFFFU);
  if (slot < ranks.end) add(slot, 0x0000FFFFU);
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kDims; ++j) _mm512_storeu_ps(to + i * stride + j * kLanes, sums[i][j]);
  }
}

template <class Sees>
void attend_block(const AttentionTile& tile, std::int32_t first, const Sees& sees, PairBlock& block,
                  TileState<std::uint16_t>& state) {
  if (is_in_place(tile, block.at)) {
    return attend_rows(tile, first, sees, PairWords{block_in_place(tile, block.at.slots[0])}, state);
  }
  copy_words(tile, block);
  attend_rows(tile, first, sees, words_of(block), state);
}

// A cache of float32 is read by the class without this instruction.
void attention_tile_of_pairs(const AttentionTile& tile) {
  if (tile.dtype != Dtype::kBFloat16) return attention_tile(tile);
  attend_tile<PairBlock, std::uint16_t>(tile);
}

}  // namespace
}  // namespace slip::kernels
