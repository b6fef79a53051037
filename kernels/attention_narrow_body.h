// SPDX-License-Identifier: Apache-2.0
// Attention over bfloat16 keys and values for a few queries, who would leave most of a tile register empty: one query
// at a time against sixteen slots or dims in lanes. Included by the source file of the AMX class, whose arithmetic it
// repeats to the bit: TDPBF16PS sums the even and the odd members of up to sixteen pairs one behind the other in two
// chains of fused multiplications, adds the chains, and adds that to what was there (Intel's manual, its operation).
#pragma once

#include "kernels/activations_body.h"
#include "kernels/attention_bf16_body.h"

namespace slip::kernels {
namespace {

// More are worth a tile register: eight take 1.5 times as long here as there.
constexpr int kNarrowQueries = 4;

alignas(64) constexpr std::int32_t kInTurns[2][kLanes] = {
    {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23},
    {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31}};  // of a register's lanes and another's

struct NarrowQueries {
  alignas(64) float queries[kNarrowQueries][kMaxHeadDim];  // rounded to bfloat16; dims rounded to kDimsAtOnce
  alignas(64) float sums[kNarrowQueries][kMaxHeadDim];     // before the division by the total; see add_values()
  Lanes most[kNarrowQueries];                              // the same in all lanes
  float total[kNarrowQueries];
};

struct NarrowBlock {
  alignas(64) float keys[kSlotGroups][kMaxHeadDim / 2][kLanes];  // [pairs of dims][slots]
  alignas(64) float weights[kNarrowQueries][kBlockSlots];        // rounded to bfloat16
  Lanes shrink[kNarrowQueries];
  BlockSlots at;
  BlockRows rows;
  std::int32_t end = 0;  // the rank behind the tile's last
  KeysAhead ahead;
};

void begin_queries(const AttentionTile& tile, NarrowQueries& state) {
  for (int query = 0; query < n_queries(tile); ++query) {
    const float* from = tile.rows[query / tile.n_heads].q + query % tile.n_heads * tile.head_dim;
    for (int d = 0; d < round_to_dims_at_once(tile.head_dim); d += kLanes) {
      const Lanes values = tile.head_dim - d >= kLanes ? load(from + d)
                           : tile.head_dim > d         ? load_first(from + d, tile.head_dim - d)
                                                       : broadcast(0);
      store(state.queries[query] + d, round_to_bf16(values));
      store(state.sums[query] + d, broadcast(0));
    }
    state.most[query] = broadcast(-__builtin_inff());
    state.total[query] = 0;
  }
}

// Eight dims of sixteen slots' keys: quarters hold four slots each, in which rows and columns change places.
template <class Eight>
SLIP_LANES void turn_four_pairs(const std::byte* const* rows, std::int64_t offset, const Eight& eight,
                                float (*to)[kLanes]) {
  __m512i a[4], b[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) a[i] = four_rows(rows + i, 4, offset, eight);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    b[2 * i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
    b[2 * i + 1] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    _mm512_store_si512(to[2 * i], _mm512_unpacklo_epi64(b[i], b[i + 2]));
    _mm512_store_si512(to[2 * i + 1], _mm512_unpackhi_epi64(b[i], b[i + 2]));
  }
}

// A group's keys, from rows to lanes.
void turn_keys(const AttentionTile& tile, int group, NarrowBlock& block) {
  const std::byte* const* rows = block.rows.keys + group * kGroupSlots;
  int line = group * tile.head_dim / kSlotGroups;
  for (int d = 0; d < round_to_dims_at_once(tile.head_dim); d += 8) {
    for (int i = 0; i < 8 / kSlotGroups; ++i) fetch_line(tile, block.ahead, line++);
    float(*to)[kLanes] = block.keys[group] + d / 2;
    for_eight(tile.head_dim - d, [&](const auto& eight) { turn_four_pairs(rows, 2 * d, eight, to); });
  }
}

// The queries' scores over a group's slots, before scaling.
template <int kQueries>
SLIP_LANES void score(const AttentionTile& tile, const NarrowQueries& state, const float (*keys)[kLanes],
                      Lanes (&scores)[kQueries]) {
  for (Lanes& score : scores) score = broadcast(0);
  for (int d = 0; d < tile.head_dim; d += kDimsAtOnce) {
    Lanes even[kQueries], odd[kQueries];
    for (int q = 0; q < kQueries; ++q) even[q] = odd[q] = broadcast(0);
    for (int pair = 0; pair < kDimsAtOnce / 2; ++pair) {
      const Lanes both = load(keys[d / 2 + pair]);
      const Lanes first = first_of_pairs(both), second = second_of_pairs(both);
#pragma GCC unroll 4
      for (int q = 0; q < kQueries; ++q) {
        const float* of_query = state.queries[q] + d + 2 * pair;
        even[q] = fused(first, broadcast(of_query[0]), even[q]);
        odd[q] = fused(second, broadcast(of_query[1]), odd[q]);
      }
    }
    for (int q = 0; q < kQueries; ++q) scores[q] = scores[q] + (even[q] + odd[q]);
  }
}

SLIP_LANES Lanes rounded_weights(const Lanes& weights) {
  const auto halves = (__m256i)_mm512_cvtneps_pbh(weights.part[0]);
  return {reinterpret_cast<Part>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
}

// One query's scores become its softmax weights.
SLIP_LANES void weigh(const AttentionTile& tile, RankRange ranks, int query, Lanes (&scores)[kSlotGroups],
                      NarrowBlock& block, NarrowQueries& state) {
  const Lanes scale = softmax_scale(tile);
  Lanes greatest = broadcast(-__builtin_inff());
  for (int group = 0; group < kSlotGroups; ++group) {
    const int first = group * kGroupSlots;
    const int begin = ranks.begin < first ? 0 : ranks.begin - first, end = ranks.end < first ? 0 : ranks.end - first;
    const auto seen = static_cast<__mmask16>(first_lanes(end) & ~first_lanes(begin));
    scores[group] = where(seen, scores[group], broadcast(-__builtin_inff()));
    greatest = larger(greatest, scores[group]);
  }
  const SoftmaxStep step = raise(broadcast(max_lanes(greatest)), scale, state.most[query]);
  Lanes sum = broadcast(0);
  for (int group = 0; group < kSlotGroups; ++group) {
    const Lanes weights = softmax_weight(scores[group], scale, step.base);
    sum = group == 0 ? weights : sum + weights;
    store(block.weights[query] + group * kGroupSlots, rounded_weights(weights));
  }
  block.shrink[query] = step.shrink;
  state.total[query] = state.total[query] * step.shrink.part[0][0] + sum_lanes(sum);
}

// The queries' sums of the dims [d, d + 32) take their weights times the block's values: of sixteen even dims, then of
// sixteen odd ones.
template <int kQueries>
SLIP_LANES void add_values(const AttentionTile& tile, const NarrowBlock& block, int d, NarrowQueries& state) {
  Lanes chains[2][kQueries][2];  // of even and of odd slots
  for (auto& chain : chains) {
    for (auto& of_query : chain) of_query[0] = of_query[1] = broadcast(0);
  }
  const int here = tile.head_dim - d < kDimsAtOnce ? tile.head_dim - d : kDimsAtOnce;
  const auto some = static_cast<__mmask32>((std::uint64_t{1} << here) - 1);
  for (int slot = block.at.begin; slot < block.at.n; ++slot) {
    const Lanes values{{reinterpret_cast<Part>(_mm512_maskz_loadu_epi16(some, block.rows.values[slot] + 2 * d))}};
    const Lanes even = first_of_pairs(values), odd = second_of_pairs(values);
    const auto add = [&](Lanes(&chain)[kQueries][2]) {
#pragma GCC unroll 4
      for (int q = 0; q < kQueries; ++q) {
        const Lanes weight = broadcast(block.weights[q][slot]);
        chain[q][0] = fused(even, weight, chain[q][0]);
        chain[q][1] = fused(odd, weight, chain[q][1]);
      }
    };
    slot % 2 == 0 ? add(chains[0]) : add(chains[1]);
  }
  for (int q = 0; q < kQueries; ++q) {
    for (int half = 0; half < 2; ++half) {
      float* sums = state.sums[q] + d + half * kLanes;
      store(sums, load(sums) * block.shrink[q] + (chains[0][q][half] + chains[1][q][half]));
    }
  }
}

template <int kQueries, class Sees>
void attend_queries(const AttentionTile& tile, std::int32_t first, const Sees& sees, NarrowBlock& block,
                    NarrowQueries& state) {
  Lanes scores[kSlotGroups][kQueries];
  for (int group = 0; group < kSlotGroups; ++group) {
    if (group * kGroupSlots < block.at.n) score<kQueries>(tile, state, block.keys[group], scores[group]);
  }
  for (int q = 0; q < kQueries; ++q) {
    const int row = q / tile.n_heads;
    const RankRange ranks = sees(row) ? ranks_in_block(tile.rows[row], first) : RankRange{0, 0};
    Lanes of_query[kSlotGroups];
    for (int group = 0; group < kSlotGroups; ++group) {
      of_query[group] = group * kGroupSlots < block.at.n ? scores[group][q] : broadcast(0);
    }
    weigh(tile, ranks, q, of_query, block, state);
  }
  for (int d = 0; d < tile.head_dim; d += kDimsAtOnce) add_values<kQueries>(tile, block, d, state);
}

template <class Sees>
void attend_block(const AttentionTile& tile, std::int32_t first, const Sees& sees, NarrowBlock& block,
                  NarrowQueries& state) {
  block.ahead = find_ahead(tile, first, block.end);
  find_rows(tile, block.at, block.rows);
  for (int group = 0; group < kSlotGroups; ++group) {
    if (group * kGroupSlots < block.at.n) turn_keys(tile, group, block);
  }
  switch (n_queries(tile)) {
    case 1:
      return attend_queries<1>(tile, first, sees, block, state);
    case 2:
      return attend_queries<2>(tile, first, sees, block, state);
    case 3:
      return attend_queries<3>(tile, first, sees, block, state);
    default:
      return attend_queries<kNarrowQueries>(tile, first, sees, block, state);
  }
}

// A query's means of 32 dims, from sums in the order of add_values().
SLIP_LANES void write_dims(const float* sums, const Lanes& total, int n, float* to) {
  const Lanes zero = broadcast(0);  // makes +0 of −0, as the tiles' way does
  const Part even = (load(sums) / total + zero).part[0], odd = (load(sums + kLanes) / total + zero).part[0];
  for (int half = 0; half < 2 && half * kLanes < n; ++half) {
    const Lanes mean{{_mm512_permutex2var_ps(even, _mm512_load_si512(kInTurns[half]), odd)}};
    if (n - half * kLanes >= kLanes) {
      store(to + half * kLanes, mean);
    } else {
      store_first(to + half * kLanes, mean, n - half * kLanes);
    }
  }
}

void narrow_attention_tile(const AttentionTile& tile) {
  const FlushDenormals flush;
  NarrowBlock block;
  block.end = ranks_of(tile).end;
  NarrowQueries state;
  begin_queries(tile, state);
  attend_blocks(tile, block, state);
  for (int query = 0; query < n_queries(tile); ++query) {
    float* to = tile.rows[query / tile.n_heads].out + query % tile.n_heads * tile.head_dim;
    const Lanes total = broadcast(state.total[query]);
    for (int d = 0; d < tile.head_dim; d += kDimsAtOnce) {
      write_dims(state.sums[query] + d, total, tile.head_dim - d, to + d);
    }
  }
}

}  // namespace
}  // namespace slip::kernels
