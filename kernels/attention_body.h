// SPDX-License-Identifier: Apache-2.0
// Attention of one tile in 16-lane arithmetic, included by each instruction class's source file.
//
// A block's keys (lanes are slots, as in the pages) and values are widened once and shared by all rows and heads of the
// tile that see the same slots. Softmax runs online over the blocks (Milakov and Gimelshein, 2018). A row's arithmetic
// does not depend on the tile's other rows: scores accumulate over the dimensions in order, outputs over the slots in
// order.
#pragma once

#include "kernels/attention_ranks.h"

namespace slip::kernels {
namespace {

constexpr int kBlockSlots = 32;
constexpr int kGroups = kBlockSlots / kGroupSlots;
constexpr int kHeadsInFlight = kParts == 1 ? 4 : 2;  // accumulators that fit the register file
constexpr int kDimsInFlight = kParts == 1 ? 4 : 2;   // in units of 16

struct KeyValueBlock {
  static constexpr int kSlots = kBlockSlots;
  alignas(64) float keys[kGroups][kMaxHeadDim][kLanes];
  alignas(64) float values[kBlockSlots * kMaxHeadDim];  // [kBlockSlots][head_dim rounded up to lanes]
  BlockSlots<kBlockSlots> at;
};

struct RowState {
  float most[kAttentionTileHeads];
  float total[kAttentionTileHeads];
};

// The outputs so far of each row and head of the tile, before the division by the total.
struct TileState {
  RowState rows[kAttentionTileRows];
  alignas(64) float sums[kAttentionTileRows * kAttentionTileHeads * kMaxHeadDim];  // rows of n_heads × rounded head_dim
};

SLIP_LANES float* sums_of(const AttentionTile& tile, TileState& state, int row, int head) {
  return state.sums + (row * tile.n_heads + head) * round_to_lanes(tile.head_dim);
}

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
    if (d + 1 < tile.head_dim) store(to[d + 1], second_of_pairs(pairs));
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

template <int kHeads>
SLIP_LANES void score_heads(const AttentionTile& tile, const float* q, const KeyValueBlock& block,
                            float (*scores)[kBlockSlots]) {
  Lanes sums[kHeads][kGroups];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    for (int g = 0; g < kGroups; ++g) sums[h][g] = broadcast(0);
  }
  for (int d = 0; d < tile.head_dim; ++d) {
    Lanes keys[kGroups];
    for (int g = 0; g < kGroups; ++g) keys[g] = load_once(block.keys[g][d]);
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const Lanes query = broadcast(q[h * tile.head_dim + d]);
      for (int g = 0; g < kGroups; ++g) sums[h][g] = fused(query, keys[g], sums[h][g]);
    }
  }
  const Lanes scale = broadcast(tile.scale);
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    for (int g = 0; g < kGroups; ++g) store(scores[h] + g * kLanes, sums[h][g] * scale);
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

// For kHeads heads × kDims · 16 dimensions: sums = sums · shrink + Σ weight · value. Heads and slots are `stride`
// apart.
template <int kHeads, int kDims>
SLIP_LANES void add_values(const float* values, std::int64_t stride, RankRange ranks,
                           const float (*weights)[kBlockSlots], const float* shrink, float* to) {
  Lanes sums[kHeads][kDims];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int j = 0; j < kDims; ++j) sums[h][j] = load(to + h * stride + j * kLanes) * broadcast(shrink[h]);
  }
  for (int slot = ranks.begin; slot < ranks.end; ++slot) {
    Lanes value[kDims];
#pragma GCC unroll 8
    for (int j = 0; j < kDims; ++j) value[j] = load_once(values + slot * stride + j * kLanes);
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const Lanes weight = broadcast(weights[h][slot]);
#pragma GCC unroll 8
      for (int j = 0; j < kDims; ++j) sums[h][j] = fused(weight, value[j], sums[h][j]);
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int j = 0; j < kDims; ++j) store(to + h * stride + j * kLanes, sums[h][j]);
  }
}

// Adds one row's ranks of this block, for heads [head, head + kHeads).
template <int kHeads>
void attend_heads(const AttentionTile& tile, const KeyValueBlock& block, int row, int head, RankRange ranks,
                  TileState& state) {
  alignas(64) float weights[kHeads][kBlockSlots];
  score_heads<kHeads>(tile, tile.rows[row].q + head * tile.head_dim, block, weights);
  float shrink[kHeads];
  for (int h = 0; h < kHeads; ++h) {
    shrink[h] = weigh(weights[h], ranks, state.rows[row].most[head + h], state.rows[row].total[head + h]);
  }
  const int dims = round_to_lanes(tile.head_dim);
  float* to = sums_of(tile, state, row, head);
  int d = 0;
  for (; d + kDimsInFlight * kLanes <= dims; d += kDimsInFlight * kLanes) {
    add_values<kHeads, kDimsInFlight>(block.values + d, dims, ranks, weights, shrink, to + d);
  }
  for (; d < dims; d += kLanes) add_values<kHeads, 1>(block.values + d, dims, ranks, weights, shrink, to + d);
}

void attend_row(const AttentionTile& tile, const KeyValueBlock& block, int row, RankRange ranks, TileState& state) {
  int head = 0;
  for (; head + kHeadsInFlight <= tile.n_heads; head += kHeadsInFlight) {
    attend_heads<kHeadsInFlight>(tile, block, row, head, ranks, state);
  }
  const int left = tile.n_heads - head;
  if (left == 3) attend_heads<3>(tile, block, row, head, ranks, state);
  if (left == 2) attend_heads<2>(tile, block, row, head, ranks, state);
  if (left == 1) attend_heads<1>(tile, block, row, head, ranks, state);
}

template <class Sees>
void attend_block(const AttentionTile& tile, std::int32_t first, const Sees& sees, KeyValueBlock& block,
                  TileState& state) {
  stage(tile, block);
  for (int r = 0; r < tile.n_rows; ++r) {
    const RankRange ranks = ranks_in_block<kBlockSlots>(tile.rows[r], first);
    if (!is_empty(ranks) && sees(r)) attend_row(tile, block, r, ranks, state);
  }
}

void clear(const AttentionTile& tile, TileState& state) {
  for (int r = 0; r < tile.n_rows; ++r) {
    for (int h = 0; h < tile.n_heads; ++h) {
      state.rows[r].most[h] = -__builtin_inff();
      state.rows[r].total[h] = 0;
      for (int d = 0; d < tile.head_dim; d += kLanes) store(sums_of(tile, state, r, h) + d, broadcast(0));
    }
  }
}

void write_out(const AttentionTile& tile, TileState& state) {
  for (int r = 0; r < tile.n_rows; ++r) {
    for (int h = 0; h < tile.n_heads; ++h) {
      const Lanes total = broadcast(state.rows[r].total[h]);
      float* to = tile.rows[r].out + h * tile.head_dim;
      for (int d = 0; d < tile.head_dim; d += kLanes) {
        const Lanes value = load(sums_of(tile, state, r, h) + d) / total;
        if (tile.head_dim - d >= kLanes) {
          store(to + d, value);
        } else {
          store_first(to + d, value, tile.head_dim - d);
        }
      }
    }
  }
}

void attention_tile(const AttentionTile& tile) {
  KeyValueBlock block;
  TileState state;
  clear(tile, state);
  attend_blocks(tile, block, state);
  write_out(tile, state);
}

}  // namespace
}  // namespace slip::kernels
