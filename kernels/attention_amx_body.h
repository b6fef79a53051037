// SPDX-License-Identifier: Apache-2.0
// Attention over bfloat16 keys and values in AMX tiles; included by the source file of that class.
//
// A tile's rows × heads are queries, sixteen to a register, and lie in lanes throughout: scoresᵀ [slots, queries] =
// keys · queriesᵀ takes the keys as the pages hold them, softmax runs down the slots without crossing lanes, and outᵀ
// [dims, queries] += valuesᵀ · weights takes its weights as they come out, rounded to bfloat16. Only values are turned,
// once a block. A query's arithmetic is the same whoever shares its register: where it sees nothing of a block that
// others see, its weights are zero and add nothing.
#pragma once

#include "kernels/activations_body.h"
#include "kernels/attention_bf16_body.h"
#include "kernels/tile_config.h"

namespace slip::kernels {
namespace {

constexpr int kMostQueries = kAttentionTileRows * kAttentionTileHeads;
constexpr int kMostRegisters = kMostQueries / kLanes;
// Lanes of one register that see slots [begin, end) of a block.
struct LaneRanks {
  alignas(64) std::int32_t begin[kLanes], end[kLanes];
};

struct QueryState {
  alignas(64) float queries[kMostRegisters][kMaxHeadDim / 2][kLanes];  // pairs of bfloat16; dims rounded to kDimsAtOnce
  alignas(64) float sums[kMostRegisters][kMaxHeadDim][kLanes];         // before the division by the total
  Lanes most[kMostRegisters], total[kMostRegisters];
  LaneRanks ranks[kMostRegisters];
};

struct KeyGroup {
  const std::byte* at;
  std::int64_t stride;
};

struct PagedBlock {
  alignas(64) std::uint16_t copied_keys[kBlockSlots][kMaxHeadDim];  // of slots that do not follow each other in a page
  alignas(64) float values[kMaxHeadDim][kLanes];                    // [dim][pairs of slots]
  KeyGroup keys[kSlotGroups];
  BlockSlots at;
  BlockRows rows;
  std::int32_t end = 0;  // the rank behind the tile's last
  KeysAhead ahead;
};

SLIP_LANES int n_registers(const AttentionTile& tile) {
  return (n_queries(tile) + kLanes - 1) / kLanes;
}

void take_queries(const AttentionTile& tile, int index, QueryState& state) {
  alignas(64) std::uint16_t rounded[kLanes][kMaxHeadDim];
  const int dims = round_to_dims_at_once(tile.head_dim);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int query = index * kLanes + lane;
    const int n = query < n_queries(tile) ? tile.head_dim : 0;
    if (n > 0) to_bf16_lanes(tile.rows[query / tile.n_heads].q + query % tile.n_heads * n, n, rounded[lane]);
    for (int d = n; d < dims; ++d) rounded[lane][d] = 0;
  }
  for (int d = 0; d < dims; d += kDimsAtOnce) {
    Lanes square[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) square[lane] = load_unaligned<Lanes>(&rounded[lane][d]);
    transpose(square);
    for (int pair = 0; pair < kLanes; ++pair) store(state.queries[index][d / 2 + pair], square[pair]);
  }
}

void begin_queries(const AttentionTile& tile, QueryState& state) {
  for (int i = 0; i < n_registers(tile); ++i) {
    take_queries(tile, i, state);
    state.most[i] = broadcast(-__builtin_inff());
    state.total[i] = broadcast(0);
    for (int d = 0; d < round_to_lanes(tile.head_dim); ++d) store(state.sums[i][d], broadcast(0));
  }
}

// Keys are multiplied where they are, if they lie there as a register takes them.
void find_keys(const AttentionTile& tile, PagedBlock& block) {
  const std::int64_t slot_bytes = std::int64_t{tile.head_dim} * 2;
  const int dims = round_to_dims_at_once(tile.head_dim);
  for (int group = 0; group < kSlotGroups; ++group) {
    const int first = group * kGroupSlots;
    if (first >= block.at.n) {
      block.keys[group] = block.keys[0];
    } else if (block.rows.together[group] && dims == tile.head_dim) {
      block.keys[group] = {block.rows.keys[first], slot_bytes};
    } else {
      for (int slot = first; slot < first + kGroupSlots; ++slot) {
        std::uint16_t* to = block.copied_keys[slot];
        __builtin_memcpy(to, block.rows.keys[slot], static_cast<std::size_t>(slot_bytes));
        __builtin_memset(to + tile.head_dim, 0, static_cast<std::size_t>(2 * dims - slot_bytes));
      }
      block.keys[group] = {reinterpret_cast<const std::byte*>(block.copied_keys[first]), kMaxHeadDim * 2};
    }
  }
}

// Eight dims of the block's values: quarters hold eight slots each, in which rows and columns change places.
template <class Eight>
SLIP_LANES void turn_eight(const std::byte* const* rows, std::int64_t offset, const Eight& eight, float (*to)[kLanes]) {
  __m512i a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) a[i] = four_rows(rows + i, 8, offset, eight);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm512_unpacklo_epi16(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi16(a[i], a[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      a[i + 2 * j] = _mm512_unpacklo_epi32(b[i + j], b[i + j + 2]);
      a[i + 2 * j + 1] = _mm512_unpackhi_epi32(b[i + j], b[i + j + 2]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm512_store_si512(to[2 * i], _mm512_unpacklo_epi64(a[i], a[i + 4]));
    _mm512_store_si512(to[2 * i + 1], _mm512_unpackhi_epi64(a[i], a[i + 4]));
  }
}

void turn_values(const AttentionTile& tile, PagedBlock& block) {
  for (int d = 0; d < round_to_lanes(tile.head_dim); d += 8) {
    for (int line = d; line < d + 8; ++line) fetch_line(tile, block.ahead, line);
    for_eight(tile.head_dim - d,
              [&](const auto& eight) { turn_eight(block.rows.values, 2 * d, eight, block.values + d); });
  }
}

SLIP_LANES void score(const AttentionTile& tile, const PagedBlock& block, const float (*queries)[kLanes],
                      float (*scores)[kLanes]) {
  _tile_zero(0);
  _tile_zero(1);
  for (int d = 0; d < tile.head_dim; d += kDimsAtOnce) {
    _tile_loadd(4, queries[d / 2], 64);
    _tile_loadd(5, block.keys[0].at + 2 * d, block.keys[0].stride);
    _tile_dpbf16ps(0, 5, 4);
    _tile_loadd(6, block.keys[1].at + 2 * d, block.keys[1].stride);
    _tile_dpbf16ps(1, 6, 4);
  }
  _tile_stored(0, scores[0], 64);
  _tile_stored(1, scores[kRegisterRows], 64);
}

// Scores that a lane does not see become −∞.
SLIP_LANES void hide(const LaneRanks& ranks, float (*scores)[kLanes]) {
  const __m512i begin = _mm512_load_si512(ranks.begin), end = _mm512_load_si512(ranks.end);
  for (int slot = 0; slot < kBlockSlots; ++slot) {
    const __m512i at = _mm512_set1_epi32(slot);
    const __mmask16 seen = _mm512_cmple_epi32_mask(begin, at) & _mm512_cmplt_epi32_mask(at, end);
    store(scores[slot], where(seen, load(scores[slot]), broadcast(-__builtin_inff())));
  }
}

// The greatest score of each lane.
SLIP_LANES Lanes greatest(const float (*scores)[kLanes]) {
  Lanes top[4] = {load(scores[0]), load(scores[1]), load(scores[2]), load(scores[3])};
#pragma GCC unroll 32
  for (int slot = 4; slot < kBlockSlots; ++slot) top[slot % 4] = larger(top[slot % 4], load(scores[slot]));
  return larger(larger(top[0], top[1]), larger(top[2], top[3]));
}

// Two slots' weights, as pairs of bfloat16.
SLIP_LANES __m512i paired(const Lanes& first, const Lanes& second) {
  alignas(64) static constexpr std::uint16_t kInTurns[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto both = (__m512i)_mm512_cvtne2ps_pbh(second.part[0], first.part[0]);
  return _mm512_permutexvar_epi16(_mm512_load_si512(kInTurns), both);
}

// The sum of sixteen along the tree of reduce(), lane by lane.
SLIP_LANES Lanes sum_down(Lanes (&values)[kLanes]) {
#pragma GCC unroll 4
  for (int half = kLanes / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) values[i] = values[i] + values[i + half];
  }
  return values[0];
}

// Scores become their softmax weights; returns the factor by which what was summed before shrinks.
SLIP_LANES Lanes weigh(const AttentionTile& tile, const LaneRanks* ranks, float (*scores)[kLanes], Lanes& most,
                       Lanes& total, float (*weights)[kLanes]) {
  const Lanes scale = softmax_scale(tile);
  if (ranks != nullptr) hide(*ranks, scores);
  const SoftmaxStep step = raise(greatest(scores), scale, most);
  Lanes sums[kGroupSlots];
#pragma GCC unroll 16
  for (int slot = 0; slot < kBlockSlots; slot += 2) {
    const Lanes first = softmax_weight(load(scores[slot]), scale, step.base);
    const Lanes second = softmax_weight(load(scores[slot + 1]), scale, step.base);
    Lanes* sum = sums + slot % kGroupSlots;
    sum[0] = slot < kGroupSlots ? first : sum[0] + first;
    sum[1] = slot < kGroupSlots ? second : sum[1] + second;
    _mm512_store_si512(weights[slot / 2], paired(first, second));
  }
  total = total * step.shrink + sum_down(sums);
  return step.shrink;
}

SLIP_LANES void add_values(const AttentionTile& tile, const PagedBlock& block, const float (*weights)[kLanes],
                           float (*sums)[kLanes]) {
  _tile_loadd(7, weights, 64);
  for (int d = 0; d < tile.head_dim; d += 2 * kLanes) {
    _tile_loadd(0, sums[d], 64);
    _tile_loadd(4, block.values[d], 64);
    _tile_dpbf16ps(0, 4, 7);
    _tile_stored(0, sums[d], 64);
    if (d + kLanes >= tile.head_dim) break;
    _tile_loadd(1, sums[d + kLanes], 64);
    _tile_loadd(5, block.values[d + kLanes], 64);
    _tile_dpbf16ps(1, 5, 7);
    _tile_stored(1, sums[d + kLanes], 64);
  }
}

template <class Sees>
SLIP_LANES RankRange seen_ranks(const AttentionTile& tile, int row, std::int32_t first, const Sees& sees) {
  return sees(row) ? ranks_in_block(tile.rows[row], first) : RankRange{0, 0};
}

template <class Sees>
SLIP_LANES bool all_see_all(const AttentionTile& tile, std::int32_t first, const Sees& sees) {
  bool all = true;
  for (int r = 0; r < tile.n_rows; ++r) {
    const RankRange ranks = seen_ranks(tile, r, first, sees);
    all = all && ranks.begin == 0 && ranks.end == kBlockSlots;
  }
  return all;
}

// What the rows for which `sees` holds see of the block, lane by lane.
template <class Sees>
SLIP_LANES void find_lane_ranks(const AttentionTile& tile, std::int32_t first, const Sees& sees, QueryState& state) {
  for (int query = 0; query < n_registers(tile) * kLanes; ++query) {
    const int row = query / tile.n_heads;
    const RankRange ranks = row < tile.n_rows ? seen_ranks(tile, row, first, sees) : RankRange{0, 0};
    state.ranks[query / kLanes].begin[query % kLanes] = ranks.begin;
    state.ranks[query / kLanes].end[query % kLanes] = ranks.end;
  }
}

SLIP_LANES bool anyone_sees(const LaneRanks& ranks) {
  return _mm512_cmplt_epi32_mask(_mm512_load_si512(ranks.begin), _mm512_load_si512(ranks.end)) != 0;
}

// What one register of queries has in hand between its three steps.
struct RegisterWork {
  alignas(64) float scores[kBlockSlots][kLanes];
  alignas(64) float weights[kBlockSlots / 2][kLanes];
  Lanes shrink;
  int index;
};

void add_block(const AttentionTile& tile, const PagedBlock& block, const RegisterWork& work, QueryState& state) {
  float(*sums)[kLanes] = state.sums[work.index];
  if (_mm512_cmp_ps_mask(work.shrink.part[0], _mm512_set1_ps(1), _CMP_NEQ_UQ) != 0) {
    const Lanes shrink = work.shrink;
    const int dims = round_to_lanes(tile.head_dim);
#pragma GCC unroll 4
    for (int d = 0; d < dims; ++d) store(sums[d], load(sums[d]) * shrink);
  }
  add_values(tile, block, work.weights, sums);
}

// The registers follow each other through the three steps one behind the other: the tile unit works on one while the
// vector units weigh another, and nobody waits for what was stored just now.
template <class Sees>
void attend_block(const AttentionTile& tile, std::int32_t first, const Sees& sees, PagedBlock& block,
                  QueryState& state) {
  block.ahead = find_ahead(tile, first, block.end);
  find_rows(tile, block.at, block.rows);
  find_keys(tile, block);
  turn_values(tile, block);
  const bool whole = all_see_all(tile, first, sees);
  if (!whole) find_lane_ranks(tile, first, sees, state);
  RegisterWork work[3];
  int n = 0;
  const auto weigh_one = [&](int turn) {
    RegisterWork& at = work[turn % 3];
    at.shrink = weigh(tile, whole ? nullptr : &state.ranks[at.index], at.scores, state.most[at.index],
                      state.total[at.index], at.weights);
  };
  for (int i = 0; i < n_registers(tile); ++i) {
    if (!whole && !anyone_sees(state.ranks[i])) continue;
    work[n % 3].index = i;
    score(tile, block, state.queries[i], work[n % 3].scores);
    if (n >= 1) weigh_one(n - 1);
    if (n >= 2) add_block(tile, block, work[(n - 2) % 3], state);
    ++n;
  }
  if (n >= 1) weigh_one(n - 1);
  if (n >= 2) add_block(tile, block, work[(n - 2) % 3], state);
  if (n >= 1) add_block(tile, block, work[(n - 1) % 3], state);
}

void write_queries(const AttentionTile& tile, int index, const QueryState& state) {
  for (int d = 0; d < tile.head_dim; d += kLanes) {
    Lanes square[kLanes];
    // Adding zero makes +0 of −0, which a block that adds nothing might do or not.
    for (int j = 0; j < kLanes; ++j) square[j] = load(state.sums[index][d + j]) / state.total[index] + broadcast(0);
    transpose(square);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int query = index * kLanes + lane;
      if (query >= n_queries(tile)) break;
      float* to = tile.rows[query / tile.n_heads].out + query % tile.n_heads * tile.head_dim + d;
      if (tile.head_dim - d >= kLanes) {
        store(to, square[lane]);
      } else {
        store_first(to, square[lane], tile.head_dim - d);
      }
    }
  }
}

void amx_attention_tile(const AttentionTile& tile) {
  const FlushDenormals flush;
  PagedBlock block;
  block.end = ranks_of(tile).end;
  QueryState state;
  begin_queries(tile, state);
  TileConfig config;
  for (int i = 0; i < 8; ++i) config.set(i, kRegisterRows);
  use(config);
  attend_blocks(tile, block, state);
  _tile_release();
  for (int i = 0; i < n_registers(tile); ++i) write_queries(tile, i, state);
}

}  // namespace
}  // namespace slip::kernels
