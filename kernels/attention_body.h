// SPDX-License-Identifier: Apache-2.0
// Attention of one tile in 16-lane arithmetic, included by each instruction class's source file.
//
// A block's keys (lanes are slots, as in the pages) and values are read from the page, or widened once and shared by
// all rows and heads of the tile that see the same slots. Softmax runs online over the blocks (Milakov and Gimelshein,
// 2018). A row's arithmetic does not depend on the tile's other rows: scores accumulate over the dimensions in order,
// outputs over the slots in order.
#pragma once

#include "kernels/attention_ranks.h"

namespace slip::kernels {
namespace {

constexpr int kBlockSlots = 32;
constexpr int kGroups = kBlockSlots / kGroupSlots;
// A query is one head of one row. As many are scored together as their sums fit the register file.
constexpr int kQueriesInFlight = kParts == 1 ? 6 : 2;
constexpr int kDimsInFlight = kParts == 1 ? 4 : 2;  // in units of 16

struct KeyValueBlock {
  static constexpr int kSlots = kBlockSlots;
  static constexpr int kBlocksAhead = 1;
  static constexpr std::int64_t kFetchedLines = kAllLines;
  alignas(64) float keys[kGroups][kMaxHeadDim][kLanes];
  alignas(64) float values[kBlockSlots * kMaxHeadDim];  // [kBlockSlots][head_dim rounded up to lanes]
  BlockSlots<kBlockSlots> at;
};

// The tile's queries, numbered row by row, and their outputs so far, before the division by the totals. A query takes
// head_dim values, rounded up to lanes. `Query` is the type that the products multiply.
template <class Query>
struct TileState {
  static constexpr int kMost = kAttentionTileRows * kAttentionTileHeads;
  float most[kMost];
  float total[kMost];
  alignas(64) float sums[kMost * kMaxHeadDim];
  alignas(64) Query queries[kMost * kMaxHeadDim];
};

// One line of a group's keys; missing slots give undefined values.
SLIP_LANES Lanes key_words(const SlotRuns& slots, std::int64_t line) {
  if (slots.together) return load_unaligned<Lanes>(slots.runs[0].keys + line * kLineBytes);
  alignas(64) std::byte words[kLineBytes] = {};
  for (int run = 0; run < slots.n; ++run) {
    const SlotRun& from = slots.runs[run];
    __builtin_memcpy(words + from.first * kWordBytes, from.keys + line * kLineBytes,
                     static_cast<std::size_t>(from.n * kWordBytes));
  }
  return load_unaligned<Lanes>(words);
}

void widen_keys(const AttentionTile& tile, const SlotRuns& slots, float (*to)[kLanes]) {
  if (tile.dtype == Dtype::kFloat32) {
    for (int d = 0; d < tile.head_dim; ++d) store(to[d], key_words(slots, d));
    return;
  }
  for (int d = 0; d < tile.head_dim; d += 2) {
    const Lanes pairs = key_words(slots, d / 2);
    store(to[d], first_of_pairs(pairs));
    store(to[d + 1], second_of_pairs(pairs));
  }
}

void widen_values(const AttentionTile& tile, const SlotValues& from, float* to) {
  for (int d = 0; d < tile.head_dim; d += kLanes) {
    const Lanes words = load_unaligned<Lanes>(from.words + d / kLanes * from.stride);
    store(to + d, tile.dtype == Dtype::kFloat32 ? words
                  : from.place == 0             ? first_of_pairs(words)
                                                : second_of_pairs(words));
  }
}

// Widens the block's slots to float32.
void stage(const AttentionTile& tile, KeyValueBlock& block) {
  for (int i = 0; i < block.at.n; ++i) {
    widen_values(tile, values_of(tile, block.at.slots[i]), block.values + i * round_to_lanes(tile.head_dim));
  }
  for (int first = 0; first < block.at.n; first += kGroupSlots) {
    const int n = block.at.n - first < kGroupSlots ? block.at.n - first : kGroupSlots;
    SlotRuns slots;
    find_runs(tile, block.at.slots + first, n, slots);
    widen_keys(tile, slots, block.keys[first / kGroupSlots]);
  }
}

// The block's keys and values for the products, sixteen lanes at a time. Here they were widened by stage().
struct StagedBlock {
  const KeyValueBlock& block;
  std::int64_t stride;  // from one slot's values to the next slot's

  // Calls body(d, keys) for each dimension, in order.
  template <class Body>
  SLIP_LANES void for_keys(int head_dim, const Body& body) const {
    for (int d = 0; d < head_dim; ++d) {
      Lanes keys[kGroups];
      for (int g = 0; g < kGroups; ++g) keys[g] = load_once(block.keys[g][d]);
      body(d, keys);
    }
  }
  // Calls body(slot, values) for each slot, in order, with its values of kDims · 16 dimensions from `dim` on.
  template <int kDims, class Body>
  SLIP_LANES void for_values(RankRange slots, int dim, const Body& body) const {
    for (int slot = slots.begin; slot < slots.end; ++slot) {
      Lanes values[kDims];
#pragma GCC unroll 8
      for (int j = 0; j < kDims; ++j) values[j] = load_once(block.values + slot * stride + dim + j * kLanes);
      body(slot, values);
    }
  }
};

// The same of a bfloat16 block, as lines of a page. They are widened in registers for each few queries, which takes
// less time than the stores of stage(): on a Zen 5, one row took 0.55 times as long, 256 rows of a prompt 0.9.
struct BlockLines {
  const std::byte* keys[kGroups];
  const std::byte* values;
  std::int64_t stride;  // from 16 dims to the next 16

  template <class Body>
  SLIP_LANES void for_keys(int head_dim, const Body& body) const {
    for (int d = 0; d < head_dim; d += 2) {
      Lanes first[kGroups], second[kGroups];
      for (int g = 0; g < kGroups; ++g) {
        const Lanes pairs = load_unaligned<Lanes>(keys[g] + d / 2 * kLineBytes);
        first[g] = first_of_pairs(pairs);
        second[g] = second_of_pairs(pairs);
      }
      body(d, first);
      body(d + 1, second);
    }
  }
  template <int kDims, class Body>
  SLIP_LANES void for_values(RankRange slots, int dim, const Body& body) const {
    for (int slot = slots.begin / 2 * 2; slot < slots.end; slot += 2) {
      Lanes first[kDims], second[kDims];
#pragma GCC unroll 8
      for (int j = 0; j < kDims; ++j) {
        const std::byte* line = values + slot / 2 * kLineBytes + (dim / kLanes + j) * stride;
        const Lanes pairs = load_unaligned<Lanes>(line);
        first[j] = first_of_pairs(pairs);
        second[j] = second_of_pairs(pairs);
      }
      if (slot >= slots.begin) body(slot, first);
      if (slot + 1 < slots.end) body(slot + 1, second);
    }
  }
};

// Whether the block's slots are neighbours in one page, from a line's start on, so that all their lines may be
// read.
SLIP_LANES bool is_in_place(const AttentionTile& tile, const BlockSlots<kBlockSlots>& at) {
  const std::int32_t first = at.slots[0], in_page = first % tile.page_tokens;
  return tile.dtype == Dtype::kBFloat16 && at.slots[at.n - 1] - first == at.n - 1 && in_page % kGroupSlots == 0 &&
         in_page + kBlockSlots <= tile.page_tokens;
}
SLIP_LANES BlockLines block_in_place(const AttentionTile& tile, std::int32_t first_slot) {
  const std::int64_t group_bytes = tile.head_dim / 2 * kLineBytes;
  const std::byte* keys = page_of(tile, first_slot) + first_slot % tile.page_tokens / kGroupSlots * group_bytes;
  const SlotValues values = values_of(tile, first_slot);
  BlockLines block;
  for (int g = 0; g < kGroups; ++g) block.keys[g] = keys + g * group_bytes;
  block.values = values.words;
  block.stride = values.stride;
  return block;
}

// scores [kQueries, kBlockSlots] of neighbouring queries, which are `stride` apart.
template <int kQueries, class Source>
SLIP_LANES void score_queries(const AttentionTile& tile, const Source& source, const float* queries,
                              std::int64_t stride, float (*scores)[kBlockSlots]) {
  Lanes sums[kQueries][kGroups];
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    for (int g = 0; g < kGroups; ++g) sums[i][g] = broadcast(0);
  }
  source.for_keys(
      tile.head_dim, [&](int d, const Lanes(&keys)[kGroups]) __attribute__((always_inline)) {
#pragma GCC unroll 8
        for (int i = 0; i < kQueries; ++i) {
          const Lanes query = broadcast(queries[i * stride + d]);
          for (int g = 0; g < kGroups; ++g) sums[i][g] = fused(query, keys[g], sums[i][g]);
        }
      });
  const Lanes scale = broadcast(tile.scale);
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    for (int g = 0; g < kGroups; ++g) store(scores[i] + g * kLanes, sums[i][g] * scale);
  }
}

// Turns the scores in `ranks` into softmax weights relative to the running maximum. Returns the factor by which earlier
// sums shrink.
SLIP_LANES float weigh(float* scores, RankRange ranks, float& most, float& total) {
  for (int i = 0; i < ranks.begin; ++i) scores[i] = -__builtin_inff();
  for (int i = ranks.end; i < kBlockSlots; ++i) scores[i] = -__builtin_inff();
  Lanes top = load(scores);
  for (int g = 1; g < kGroups; ++g) top = larger(top, load(scores + g * kLanes));
  const float block_most = max_lanes(top);
  float shrink = 1;
  if (!(block_most <= most)) {
    shrink = exponential(Part{} + (most - block_most))[0];
    most = block_most;
  }
  Lanes sum = broadcast(0);
  for (int g = 0; g < kGroups; ++g) {
    const Lanes weight = exponential(load(scores + g * kLanes) - broadcast(most));
    store(scores + g * kLanes, weight);
    sum = sum + weight;
  }
  total = total * shrink + sum_lanes(sum);
  return shrink;
}

// For kQueries queries × kDims · 16 dimensions from `dim` on: sums = sums · shrink + Σ weight · value.
template <int kQueries, int kDims, class Source>
SLIP_LANES void add_values(const Source& source, int dim, std::int64_t stride, RankRange ranks,
                           const float (*weights)[kBlockSlots], const float* shrink, float* to) {
  Lanes sums[kQueries][kDims];
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kDims; ++j) sums[i][j] = load(to + i * stride + j * kLanes) * broadcast(shrink[i]);
  }
  source.template for_values<kDims>(
      ranks, dim, [&](int slot, const Lanes(&values)[kDims]) __attribute__((always_inline)) {
#pragma GCC unroll 8
        for (int i = 0; i < kQueries; ++i) {
          const Lanes weight = broadcast(weights[i][slot]);
#pragma GCC unroll 8
          for (int j = 0; j < kDims; ++j) sums[i][j] = fused(weight, values[j], sums[i][j]);
        }
      });
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kDims; ++j) store(to + i * stride + j * kLanes, sums[i][j]);
  }
}

// Adds the ranks of one block to queries [first, first + kQueries), which all see them.
template <int kQueries, class Source, class Query>
void attend_queries(const AttentionTile& tile, const Source& source, int first, RankRange ranks,
                    TileState<Query>& state) {
  const int dims = round_to_lanes(tile.head_dim);
  alignas(64) float weights[kQueries][kBlockSlots];
  score_queries<kQueries>(tile, source, state.queries + first * dims, dims, weights);
  float shrink[kQueries];
  for (int i = 0; i < kQueries; ++i) {
    shrink[i] = weigh(weights[i], ranks, state.most[first + i], state.total[first + i]);
  }
  float* to = state.sums + first * dims;
  int d = 0;
  for (; d + kDimsInFlight * kLanes <= dims; d += kDimsInFlight * kLanes) {
    add_values<kQueries, kDimsInFlight>(source, d, dims, ranks, weights, shrink, to + d);
  }
  for (; d < dims; d += kLanes) add_values<kQueries, 1>(source, d, dims, ranks, weights, shrink, to + d);
}

template <int kQueries, class Source, class Query>
void attend_last(const AttentionTile& tile, const Source& source, int first, int n, RankRange ranks,
                 TileState<Query>& state) {
  if constexpr (kQueries > 0) {
    if (n == kQueries) return attend_queries<kQueries>(tile, source, first, ranks, state);
    attend_last<kQueries - 1>(tile, source, first, n, ranks, state);
  }
}

// Adds one block to all rows that see it. Neighbouring rows that see the same ranks are taken together.
template <class Source, class Sees, class Query>
void attend_rows(const AttentionTile& tile, std::int32_t first_rank, const Sees& sees, const Source& source,
                 TileState<Query>& state) {
  for (int row = 0, next = 0; row < tile.n_rows; row = next) {
    const RankRange ranks = ranks_in_block<kBlockSlots>(tile.rows[row], first_rank);
    const auto sees_as_many = [&](int other) {
      const RankRange of_other = ranks_in_block<kBlockSlots>(tile.rows[other], first_rank);
      return of_other.begin == ranks.begin && of_other.end == ranks.end && sees(other);
    };
    next = row + 1;
    if (is_empty(ranks) || !sees(row)) continue;
    while (next < tile.n_rows && sees_as_many(next)) ++next;
    int query = row * tile.n_heads;
    const int end = next * tile.n_heads;
    for (; query + kQueriesInFlight <= end; query += kQueriesInFlight) {
      attend_queries<kQueriesInFlight>(tile, source, query, ranks, state);
    }
    attend_last<kQueriesInFlight - 1>(tile, source, query, end - query, ranks, state);
  }
}

template <class Sees>
void attend_block(const AttentionTile& tile, std::int32_t first, const Sees& sees, KeyValueBlock& block,
                  TileState<float>& state) {
  if (kParts == 1 && is_in_place(tile, block.at)) {  // with 16 registers, none is left for widening
    return attend_rows(tile, first, sees, block_in_place(tile, block.at.slots[0]), state);
  }
  stage(tile, block);
  attend_rows(tile, first, sees, StagedBlock{block, round_to_lanes(tile.head_dim)}, state);
}

SLIP_LANES void store_query(float* to, const Lanes& values) {
  store(to, values);
}
SLIP_LANES void store_query(std::uint16_t* to, const Lanes& values) {
  store_bf16(to, values);
}

template <class Query>
void begin_queries(const AttentionTile& tile, TileState<Query>& state) {
  const int dims = round_to_lanes(tile.head_dim);
  for (int i = 0; i < tile.n_rows * tile.n_heads; ++i) {
    state.most[i] = -__builtin_inff();
    state.total[i] = 0;
    const float* from = tile.rows[i / tile.n_heads].q + i % tile.n_heads * tile.head_dim;
    for (int d = 0; d < tile.head_dim; d += kLanes) {
      const int left = tile.head_dim - d;
      store(state.sums + i * dims + d, broadcast(0));
      store_query(state.queries + i * dims + d, left >= kLanes ? load(from + d) : load_first(from + d, left));
    }
  }
}

template <class Query>
void write_out(const AttentionTile& tile, const TileState<Query>& state) {
  const int dims = round_to_lanes(tile.head_dim);
  for (int i = 0; i < tile.n_rows * tile.n_heads; ++i) {
    const Lanes total = broadcast(state.total[i]);
    float* to = tile.rows[i / tile.n_heads].out + i % tile.n_heads * tile.head_dim;
    for (int d = 0; d < tile.head_dim; d += kLanes) {
      const Lanes value = load(state.sums + i * dims + d) / total;
      if (tile.head_dim - d >= kLanes) {
        store(to + d, value);
      } else {
        store_first(to + d, value, tile.head_dim - d);
      }
    }
  }
}

template <class Block, class Query>
void attend_tile(const AttentionTile& tile) {
  Block block;
  TileState<Query> state;
  static_assert(sizeof block + sizeof state < 3U << 19, "cli/process/stack_limit.cpp accepts a stack of 2 MiB");
  begin_queries(tile, state);
  attend_blocks(tile, block, state);
  write_out(tile, state);
}

// Not inline: two states of this size would be a stack frame of their own.
[[gnu::noinline]] void attention_tile(const AttentionTile& tile) {
  attend_tile<KeyValueBlock, float>(tile);
}

}  // namespace
}  // namespace slip::kernels
