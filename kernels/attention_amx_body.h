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
#include "kernels/attention_ranks.h"
#include "kernels/tile_config.h"

namespace slip::kernels {
namespace {

constexpr int kMostQueries = kAttentionTileRows * kAttentionTileHeads;
constexpr int kMostRegisters = kMostQueries / kLanes;
constexpr int kDimsAtOnce = 32;                           // of keys and queries, that one product sums over
constexpr int kSlotGroups = kBlockSlots / kRegisterRows;  // a register holds so many slots
constexpr int kBlocksAhead = 2;                           // that fetching is before its use

// Lanes of one register that see slots [begin, end) of a block.
struct LaneRanks {
  alignas(64) std::int32_t begin[kLanes], end[kLanes];
};

struct QueryState {
  alignas(64) float queries[kMostRegisters][kMaxHeadDim / 2][kLanes];  // pairs of bfloat16; dims rounded to kDimsAtOnce
  alignas(64) float sums[kMostRegisters][kMaxHeadDim][kLanes];         // before the division by the total
  Lanes most[kMostRegisters], total[kMostRegisters];
  LaneRanks ranks[kMostRegisters];
  AncestorCursor ancestors[kAttentionTileRows];
  RangeCursor block_begin;
};

struct KeyGroup {
  const std::byte* at;
  std::int64_t stride;
};

// Keys of a block that comes soon, for fetching; null where none are known. They and their values lie in places that no
// processor guesses.
struct KeysAhead {
  const std::byte* keys[kSlotGroups] = {};
};

struct PagedBlock {
  alignas(64) std::uint16_t copied_keys[kBlockSlots][kMaxHeadDim];  // of slots that do not follow each other in a page
  alignas(64) float values[kMaxHeadDim][kLanes];                    // [dim][pairs of slots]
  KeyGroup keys[kSlotGroups];
  BlockSlots at;
  KeysAhead ahead;
};

SLIP_LANES int round_to_dims_at_once(int n) {
  return (n + kDimsAtOnce - 1) / kDimsAtOnce * kDimsAtOnce;
}
SLIP_LANES int n_queries(const AttentionTile& tile) {
  return tile.n_rows * tile.n_heads;
}
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
  state.block_begin = {};
  for (int r = 0; r < tile.n_rows; ++r) state.ancestors[r] = {0, tile.rows[r].n_listed};
  for (int i = 0; i < n_registers(tile); ++i) {
    take_queries(tile, i, state);
    state.most[i] = broadcast(-__builtin_inff());
    state.total[i] = broadcast(0);
    for (int d = 0; d < round_to_lanes(tile.head_dim); ++d) store(state.sums[i][d], broadcast(0));
  }
}

// Sixteen slots whose keys can be multiplied where they are.
bool lie_together(const AttentionTile& tile, const std::int32_t* slots, int n) {
  if (tile.head_dim % kDimsAtOnce != 0) return false;
  if (slots[0] % tile.page_tokens + kRegisterRows > tile.page_tokens) return false;
  for (int i = 1; i < n; ++i) {
    if (slots[i] != slots[0] + i) return false;
  }
  return true;
}

void find_keys(const AttentionTile& tile, PagedBlock& block) {
  const std::int64_t slot_bytes = std::int64_t{tile.head_dim} * 2;
  for (int group = 0; group < kSlotGroups; ++group) {
    const int first = group * kRegisterRows;
    const int n = block.at.n - first < kRegisterRows ? block.at.n - first : kRegisterRows;
    if (n <= 0) {
      block.keys[group] = block.keys[0];  // any finite or infinite nonsense will do: nobody sees these slots
    } else if (lie_together(tile, block.at.slots + first, n)) {
      block.keys[group] = {slot_address(tile, block.at.slots[first], slot_bytes), slot_bytes};
    } else {
      const int dims = round_to_dims_at_once(tile.head_dim);
      for (int i = 0; i < kRegisterRows; ++i) {
        std::uint16_t* to = block.copied_keys[first + i];
        const std::int64_t bytes = i < n ? slot_bytes : 0;
        if (i < n) {
          __builtin_memcpy(to, slot_address(tile, block.at.slots[first + i], slot_bytes),
                           static_cast<std::size_t>(bytes));
        }
        __builtin_memset(to + bytes / 2, 0, static_cast<std::size_t>(2 * dims - bytes));
      }
      block.keys[group] = {reinterpret_cast<const std::byte*>(block.copied_keys[first]), kMaxHeadDim * 2};
    }
  }
}

// Sixteen of a slot's values from dimension d on, each in the lower half of a lane.
SLIP_LANES BitPart sixteen_values(const std::byte* value, int d, int head_dim) {
  const auto n = head_dim - d < kLanes ? static_cast<unsigned>(head_dim - d) : unsigned{kLanes};
  const auto some = static_cast<__mmask16>((1U << n) - 1);
  return reinterpret_cast<BitPart>(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, value + 2 * d)));
}

SLIP_LANES bool is_seen(const BlockSlots& block, int rank) {
  return rank >= block.begin && rank < block.n;
}

KeysAhead find_ahead(const AttentionTile& tile, std::int32_t first) {
  KeysAhead ahead;
  if (tile.n_visible_ranges != 0) return ahead;
  for (int group = 0; group < kSlotGroups; ++group) {
    const std::int32_t slot = first + group * kRegisterRows;
    if (slot < tile.rows[0].n_committed) ahead.keys[group] = slot_address(tile, slot, std::int64_t{tile.head_dim} * 2);
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

void turn_values(const AttentionTile& tile, PagedBlock& block) {
  const std::int64_t slot_bytes = std::int64_t{tile.head_dim} * 2;
  const std::byte* values[kBlockSlots];
  for (int i = 0; i < block.at.n; ++i) {
    values[i] = slot_address(tile, block.at.slots[i], slot_bytes) + tile.values_offset_bytes;
  }
  for (int d = 0; d < tile.head_dim; d += kLanes) {
    Lanes square[kLanes];
    for (int pair = 0; pair < kLanes; ++pair) {
      // Zeros for slots that nobody sees: what lies there may be no number, which no weight makes nothing of.
      fetch_line(tile, block.ahead, d + pair);
      BitPart both{};
      if (is_seen(block.at, 2 * pair)) both = sixteen_values(values[2 * pair], d, tile.head_dim);
      if (is_seen(block.at, 2 * pair + 1)) both |= sixteen_values(values[2 * pair + 1], d, tile.head_dim) << 16;
      square[pair].part[0] = reinterpret_cast<Part>(both);
    }
    transpose(square);
    for (int j = 0; j < kLanes; ++j) store(block.values[d + j], square[j]);
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

SLIP_LANES Lanes where(__mmask16 mask, const Lanes& yes, const Lanes& no) {
  return {_mm512_mask_blend_ps(mask, no.part[0], yes.part[0])};
}

// 2^x for x up to about 0: 2^n · 2^r with |r| ≤ 1/2 and a polynomial of degree 4 that is 1 at 0, fitted to the
// least relative error, 2.9e-6: far below the rounding to bfloat16 that follows. Zero below −159.5; NaN is kept.
SLIP_LANES Lanes power_of_two(const Lanes& x) {
  const __m512 bounded = x.part[0] < -160.0F ? Part{} - 160.0F : x.part[0];
  const __m512 n = _mm512_roundscale_ps(bounded, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const Part r = bounded - n, zero{};
  Part sum = zero + 0x1.3a02ccp-7F;
  sum = fused(sum, r, zero + 0x1.c9fc46p-5F);
  sum = fused(sum, r, zero + 0x1.ec0378p-3F);
  sum = fused(sum, r, zero + 0x1.62e12cp-1F);
  sum = fused(sum, r, zero + 1.0F);
  return {_mm512_scalef_ps(sum, n)};
}

// The greatest score of each lane; scores that a lane does not see become −∞.
SLIP_LANES Lanes greatest(const LaneRanks* ranks, float (*scores)[kLanes]) {
  const Lanes least = broadcast(-__builtin_inff());
  Lanes top[2] = {least, least};
  for (int slot = 0; slot < kBlockSlots; ++slot) {
    Lanes value = load(scores[slot]);
    if (ranks != nullptr) {
      const __m512i at = _mm512_set1_epi32(slot);
      const __mmask16 seen = _mm512_cmple_epi32_mask(_mm512_load_si512(ranks->begin), at) &
                             _mm512_cmplt_epi32_mask(at, _mm512_load_si512(ranks->end));
      value = where(seen, value, least);
      store(scores[slot], value);
    }
    top[slot % 2] = larger(top[slot % 2], value);
  }
  return larger(top[0], top[1]);
}

// Two slots' weights, as pairs of bfloat16.
SLIP_LANES __m512i paired(const Lanes& first, const Lanes& second) {
  alignas(64) static constexpr std::uint16_t kInTurns[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto both = (__m512i)_mm512_cvtne2ps_pbh(second.part[0], first.part[0]);
  return _mm512_permutexvar_epi16(_mm512_load_si512(kInTurns), both);
}

// Scores become their softmax weights relative to the greatest so far; returns the factor by which what was summed
// before shrinks, 1 where nothing greater came. `most` is kept in units in which a weight is a power of two.
SLIP_LANES Lanes weigh(const AttentionTile& tile, const LaneRanks* ranks, float (*scores)[kLanes], Lanes& most,
                       Lanes& total, float (*weights)[kLanes]) {
  constexpr float kLog2E = 1.44269504F;
  const Lanes scale = broadcast(tile.scale * kLog2E), least = broadcast(-__builtin_inff());
  const Lanes top = larger(most, greatest(ranks, scores) * scale);
  const __mmask16 grows = _mm512_cmp_ps_mask(top.part[0], most.part[0], _CMP_GT_OQ);
  // A query that has seen nothing yet has no greatest score, and infinities have no difference.
  const Lanes base = where(_mm512_cmp_ps_mask(top.part[0], least.part[0], _CMP_EQ_OQ), broadcast(0), top);
  const Lanes shrink = where(grows, power_of_two(most - base), broadcast(1));
  most = top;
  Lanes sums[2] = {broadcast(0), broadcast(0)};
  for (int slot = 0; slot < kBlockSlots; slot += 2) {
    const Lanes first = power_of_two(load(scores[slot]) * scale - base);
    const Lanes second = power_of_two(load(scores[slot + 1]) * scale - base);
    sums[0] = sums[0] + first;
    sums[1] = sums[1] + second;
    _mm512_store_si512(weights[slot / 2], paired(first, second));
  }
  total = total * shrink + (sums[0] + sums[1]);
  return shrink;
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

// What the rows for which `sees` holds see of the block, lane by lane; returns whether all lanes see all of it.
template <class Sees>
SLIP_LANES bool find_lane_ranks(const AttentionTile& tile, std::int32_t first, const Sees& sees, QueryState& state) {
  bool whole = true;
  for (int r = 0; r < tile.n_rows; ++r) {
    RankRange ranks = ranks_in_block(tile.rows[r], first);
    if (!sees(r)) ranks = {0, 0};
    whole = whole && ranks.begin == 0 && ranks.end == kBlockSlots;
    for (int query = r * tile.n_heads; query < (r + 1) * tile.n_heads; ++query) {
      state.ranks[query / kLanes].begin[query % kLanes] = ranks.begin;
      state.ranks[query / kLanes].end[query % kLanes] = ranks.end;
    }
  }
  for (int query = n_queries(tile); query < n_registers(tile) * kLanes; ++query) {
    state.ranks[query / kLanes].begin[query % kLanes] = state.ranks[query / kLanes].end[query % kLanes] = 0;
  }
  return whole;
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
    for (int d = 0; d < round_to_lanes(tile.head_dim); ++d) store(sums[d], load(sums[d]) * work.shrink);
  }
  add_values(tile, block, work.weights, sums);
}

// The registers follow each other through the three steps one behind the other: the tile unit works on one while the
// vector units weigh another, and nobody waits for what was stored just now.
template <class Sees>
void attend_block(const AttentionTile& tile, std::int32_t first, const Sees& sees, PagedBlock& block,
                  QueryState& state) {
  find_keys(tile, block);
  turn_values(tile, block);
  const bool whole = find_lane_ranks(tile, first, sees, state);
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
  PagedBlock block;
  QueryState state;
  begin_queries(tile, state);
  TileConfig config;
  for (int i = 0; i < 8; ++i) config.set(i, kRegisterRows);
  use(config);
  const TileRanks ranks = ranks_of(tile);
  for (std::int32_t first = ranks.begin; first < ranks.end; first += kBlockSlots) {
    block.ahead = find_ahead(tile, first + kBlocksAhead * kBlockSlots);
    if (first < tile.rows[0].n_listed) listed_slot(tile, first, state.block_begin);
    const auto is_plain_to = [&](int r) { return is_plain(tile.rows[r], first); };
    find_plain_slots(tile, first, state.block_begin, block.at);
    if (block.at.n > 0) attend_block(tile, first, is_plain_to, block, state);
    for (int r = 0; r < tile.n_rows; ++r) {
      if (is_empty(ranks_in_block(tile.rows[r], first)) || is_plain_to(r)) continue;
      find_gapped_slots(tile, first, tile.rows[r], state.block_begin, state.ancestors[r], block.at);
      attend_block(
          tile, first, [&](int other) { return other == r; }, block, state);
    }
  }
  _tile_release();
  for (int i = 0; i < n_registers(tile); ++i) write_queries(tile, i, state);
}

}  // namespace
}  // namespace slip::kernels
