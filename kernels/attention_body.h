// SPDX-License-Identifier: Apache-2.0
// Attention of one tile in 16-lane arithmetic, included by each instruction class's source file.
//
// A block's keys (lanes are slots, as in the pages) and values are read from the page by each row, or widened once and
// shared by all rows and heads of the tile that see the same slots. Softmax runs online over the blocks (Milakov and
// Gimelshein, 2018). A row's arithmetic does not depend on the tile's other rows: scores accumulate over the dimensions
// in order, outputs over the slots in order.
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
  std::int32_t end = 0;  // the last rank that a row of the tile sees, plus one
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

// The same of a bfloat16 block whose slots fill a page as the products read them. Each row widens the lines anew, in
// registers, which takes less time than the stores of stage(): on a Zen 5, one row took 0.55 times as long, 256 rows of
// a prompt 0.9.
struct BlockInPlace {
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
      if (d + 1 < head_dim) body(d + 1, second);
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

// Whether the block's slots are neighbours in one page, from a line's start on, so that BlockInPlace may read all their
// lines. Classes with 16 registers have none left for widening.
SLIP_LANES bool is_in_place(const AttentionTile& tile, const BlockSlots<kBlockSlots>& at) {
  const std::int32_t first = at.slots[0], in_page = first % tile.page_tokens;
  return kParts == 1 && tile.dtype == Dtype::kBFloat16 && at.slots[at.n - 1] - first == at.n - 1 &&
         in_page % kGroupSlots == 0 && in_page + kBlockSlots <= tile.page_tokens;
}
SLIP_LANES BlockInPlace block_in_place(const AttentionTile& tile, std::int32_t first_slot) {
  const std::int64_t group_bytes = (tile.head_dim + 1) / 2 * kLineBytes;
  const std::byte* keys = page_of(tile, first_slot) + first_slot % tile.page_tokens / kGroupSlots * group_bytes;
  const SlotValues values = values_of(tile, first_slot);
  BlockInPlace block;
  for (int g = 0; g < kGroups; ++g) block.keys[g] = keys + g * group_bytes;
  block.values = values.words;
  block.stride = values.stride;
  return block;
}

template <int kHeads, class Source>
SLIP_LANES void score_heads(const AttentionTile& tile, const float* q, const Source& source,
                            float (*scores)[kBlockSlots]) {
  Lanes sums[kHeads][kGroups];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    for (int g = 0; g < kGroups; ++g) sums[h][g] = broadcast(0);
  }
  source.for_keys(
      tile.head_dim, [&](int d, const Lanes(&keys)[kGroups]) __attribute__((always_inline)) {
#pragma GCC unroll 8
        for (int h = 0; h < kHeads; ++h) {
          const Lanes query = broadcast(q[h * tile.head_dim + d]);
          for (int g = 0; g < kGroups; ++g) sums[h][g] = fused(query, keys[g], sums[h][g]);
        }
      });
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

// For kHeads heads × kDims · 16 dimensions: sums = sums · shrink + Σ weight · value. Heads are `stride` apart.
template <int kHeads, int kDims, class Source>
SLIP_LANES void add_values(const Source& source, int dim, std::int64_t stride, RankRange ranks,
                           const float (*weights)[kBlockSlots], const float* shrink, float* to) {
  Lanes sums[kHeads][kDims];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int j = 0; j < kDims; ++j) sums[h][j] = load(to + h * stride + j * kLanes) * broadcast(shrink[h]);
  }
  source.template for_values<kDims>(
      ranks, dim, [&](int slot, const Lanes(&values)[kDims]) __attribute__((always_inline)) {
#pragma GCC unroll 8
        for (int h = 0; h < kHeads; ++h) {
          const Lanes weight = broadcast(weights[h][slot]);
#pragma GCC unroll 8
          for (int j = 0; j < kDims; ++j) sums[h][j] = fused(weight, values[j], sums[h][j]);
        }
      });
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int j = 0; j < kDims; ++j) store(to + h * stride + j * kLanes, sums[h][j]);
  }
}

// Adds one row's ranks of this block, for heads [head, head + kHeads).
template <int kHeads, class Source>
void attend_heads(const AttentionTile& tile, const Source& source, int row, int head, RankRange ranks,
                  TileState& state) {
  alignas(64) float weights[kHeads][kBlockSlots];
  score_heads<kHeads>(tile, tile.rows[row].q + head * tile.head_dim, source, weights);
  float shrink[kHeads];
  for (int h = 0; h < kHeads; ++h) {
    shrink[h] = weigh(weights[h], ranks, state.rows[row].most[head + h], state.rows[row].total[head + h]);
  }
  const int dims = round_to_lanes(tile.head_dim);
  float* to = sums_of(tile, state, row, head);
  int d = 0;
  for (; d + kDimsInFlight * kLanes <= dims; d += kDimsInFlight * kLanes) {
    add_values<kHeads, kDimsInFlight>(source, d, dims, ranks, weights, shrink, to + d);
  }
  for (; d < dims; d += kLanes) add_values<kHeads, 1>(source, d, dims, ranks, weights, shrink, to + d);
}

template <class Source>
void attend_row(const AttentionTile& tile, const Source& source, int row, RankRange ranks, TileState& state) {
  int head = 0;
  for (; head + kHeadsInFlight <= tile.n_heads; head += kHeadsInFlight) {
    attend_heads<kHeadsInFlight>(tile, source, row, head, ranks, state);
  }
  const int left = tile.n_heads - head;
  if (left == 3) attend_heads<3>(tile, source, row, head, ranks, state);
  if (left == 2) attend_heads<2>(tile, source, row, head, ranks, state);
  if (left == 1) attend_heads<1>(tile, source, row, head, ranks, state);
}

template <class Sees>
void attend_block(const AttentionTile& tile, std::int32_t first, const Sees& sees, KeyValueBlock& block,
                  TileState& state) {
  fetch_block<kBlockSlots>(tile, first + kBlockSlots, block.end, tile.values_offset_bytes / kLineBytes);
  const auto attend = [&](const auto& source) {
    for (int r = 0; r < tile.n_rows; ++r) {
      const RankRange ranks = ranks_in_block<kBlockSlots>(tile.rows[r], first);
      if (!is_empty(ranks) && sees(r)) attend_row(tile, source, r, ranks, state);
    }
  };
  if (is_in_place(tile, block.at)) return attend(block_in_place(tile, block.at.slots[0]));
  stage(tile, block);
  attend(StagedBlock{block, round_to_lanes(tile.head_dim)});
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
  block.end = ranks_of<kBlockSlots>(tile).end;
  clear(tile, state);
  attend_blocks(tile, block, state);
  write_out(tile, state);
}

}  // namespace
}  // namespace slip::kernels
