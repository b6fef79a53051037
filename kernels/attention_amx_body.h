// SPDX-License-Identifier: Apache-2.0
// Attention over bfloat16 keys and values in AMX tiles, included by the AMX class's source file.
//
// A tile's rows × heads are queries, sixteen per register, one per register row. Scores [queries, slots] = queries ·
// keysᵀ and out [queries, dims] += weights · values read keys and values as the pages hold them. A product takes one
// cycle per query. A query's arithmetic does not depend on the others in its register: its weights are zero for slots
// that it does not see, and stored values are finite (store_kv()), so these add nothing.
#pragma once

#include "kernels/activations_body.h"
#include "kernels/attention_amx_pages.h"
#include "kernels/attention_softmax_body.h"

namespace slip::kernels {
namespace {

constexpr int kMostQueries = kAttentionTileRows * kAttentionTileHeads;
constexpr int kMostRegisters = kMostQueries / kRegisterRows;

// The state of one register of queries between its three steps over a block.
struct RegisterWork {
  alignas(64) Register scores[kSlotGroups];
  alignas(64) Register weights[kValueSteps];  // pairs of bfloat16
  std::uint64_t seen[kRegisterRows];          // bit mask of the block's visible slots, per query
  Lanes shrink;                               // per query: factor that rescales its earlier sums
  const StagedValues* values;
  int index, n_steps;
  bool whole;  // every query sees the whole block
};

struct QueryState {
  alignas(64) Register queries[kMostRegisters][kMaxHeadDim / kDimsAtOnce];  // pairs of bfloat16
  alignas(64) Register sums[kMostRegisters][kMaxHeadDim / kLanes];          // before the division by the total
  Softmax softmax[kMostRegisters];
  // Three registers are in flight, one per step; the values of the last two blocks are kept for them.
  RegisterWork work[3];
  StagedValues values[3];
  int n_works = 0, n_scored = 0, n_blocks = 0;
};

SLIP_LANES int n_queries(const AttentionTile& tile) {
  return tile.n_rows * tile.n_heads;
}
SLIP_LANES int n_registers(const AttentionTile& tile) {
  return (n_queries(tile) + kRegisterRows - 1) / kRegisterRows;
}
SLIP_LANES int n_queries_of(const AttentionTile& tile, int index) {
  const int n = n_queries(tile) - index * kRegisterRows;
  return n < kRegisterRows ? n : kRegisterRows;
}
SLIP_LANES std::uint64_t first_bits(int n) {
  return n >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
}

void take_query(const float* from, int n, Register* to, int place) {
  for (int d = 0; d < n; d += kDimsAtOnce) {
    auto* row = reinterpret_cast<std::uint16_t*>(to[d / kDimsAtOnce][place]);
    for (int half = 0; half < kDimsAtOnce; half += kLanes) {
      const int left = n - d - half;
      store_bf16(row + half, left >= kLanes ? load(from + d + half)
                             : left > 0     ? load_first(from + d + half, left)
                                            : broadcast(0));
    }
  }
}

void begin_queries(const AttentionTile& tile, QueryState& state) {
  for (int i = 0; i < n_registers(tile); ++i) {
    for (int place = 0; place < n_queries_of(tile, i); ++place) {
      const int query = i * kRegisterRows + place;
      const float* from = tile.rows[query / tile.n_heads].q + query % tile.n_heads * tile.head_dim;
      take_query(from, tile.head_dim, state.queries[i], place);
      for (int d = 0; d < tile.head_dim; d += kLanes) store(state.sums[i][d / kLanes][place], broadcast(0));
    }
    begin(state.softmax[i]);
  }
}

// Prefetches a register's lines into the first-level cache, two products before its load. A tile load requests sixteen
// lines at once and waits for the slowest.
SLIP_LANES void bring_register_near(const std::byte* at) {
#pragma GCC unroll 16
  for (int row = 0; row < kRegisterRows; ++row) __builtin_prefetch(at + row * kLineBytes, 0, 3);
}

SLIP_LANES void score(const AttentionTile& tile, const PagedBlock& block, const Register* queries, Register* scores) {
  const int n_groups = (block.at.n + kGroupSlots - 1) / kGroupSlots;
  finish_stores();
  zero_tile<0>();
  zero_tile<1>();
  zero_tile<2>();
  zero_tile<3>();
  for (int d = 0; d < tile.head_dim; d += kDimsAtOnce) {
    const auto keys = [&](int group) { return block.keys[group] + d / 2 * kLineBytes; };
    load_tile<4>(queries[d / kDimsAtOnce], kRegisterBytes);
    bring_register_near(keys(2));
    load_tile<6>(keys(0), kRegisterBytes);
    multiply_tiles<0, 4, 6>();
    if (n_groups <= 1) continue;
    bring_register_near(keys(3));
    load_tile<7>(keys(1), kRegisterBytes);
    multiply_tiles<1, 4, 7>();
    if (n_groups <= 2) continue;
    bring_register_near(keys(0) + sizeof(Register));
    load_tile<6>(keys(2), kRegisterBytes);
    multiply_tiles<2, 4, 6>();
    if (n_groups <= 3) continue;
    bring_register_near(keys(1) + sizeof(Register));
    load_tile<7>(keys(3), kRegisterBytes);
    multiply_tiles<3, 4, 7>();
  }
  store_tile<0>(scores[0], kRegisterBytes);
  store_tile<1>(scores[1], kRegisterBytes);
  store_tile<2>(scores[2], kRegisterBytes);
  store_tile<3>(scores[3], kRegisterBytes);
}

SLIP_LANES __mmask16 seen_of_group(const RegisterWork& work, int query, int group) {
  return work.whole ? __mmask16{0xFFFF} : static_cast<__mmask16>(work.seen[query] >> (group * kGroupSlots));
}

// The scale of scores, times log2(e): softmax weights are powers of two.
SLIP_LANES Lanes softmax_scale(const AttentionTile& tile) {
  constexpr float kLog2E = 1.44269504F;
  return broadcast(tile.scale * kLog2E);
}

// Raises the bases of some queries to their greatest scores of the block.
template <int kGroups>
void raise_bases(const AttentionTile& tile, __mmask16 which, RegisterWork& work, Softmax& softmax) {
  alignas(64) float greatest[kLanes] = {};
  for (int query = 0; query < n_queries_of(tile, work.index); ++query) {
    Lanes top = least_score();
    for (int group = 0; group < kGroups; ++group) {
      const Lanes score = load(work.scores[group][query]);
      top = larger(top, where(seen_of_group(work, query, group), score, least_score()));
    }
    greatest[query] = max_lanes(top);
  }
  work.shrink = work.shrink * raise_bases(which, load(greatest) * softmax_scale(tile), softmax);
}

// Turns scores into softmax weights, one product's slots after the other's. `sums` are each query's weight sums, per
// lane.
template <int kSteps, bool kWhole>
SLIP_LANES void weigh_queries(const AttentionTile& tile, RegisterWork& work, const float* bases, Lanes* sums) {
  const Lanes scale = softmax_scale(tile);
  const int n = n_queries_of(tile, work.index);
#pragma GCC unroll 16
  for (int query = 0; query < kRegisterRows; ++query) {
    if (query >= n) continue;
    const Lanes base = broadcast(bases[query]);
#pragma GCC unroll 2
    for (int step = 0; step < kSteps; ++step) {
      Lanes weights[2];
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const int group = 2 * step + half;
        // Scale and round first, as for the base. A fused operation would round differently, and a large score would
        // not cancel.
        weights[half] = power_of_two(load(work.scores[group][query]) * scale - base);
        if (!kWhole) weights[half] = where(seen_of_group(work, query, group), weights[half], broadcast(0));
      }
      const Lanes sum = weights[0] + weights[1];
      sums[query] = step == 0 ? sum : sums[query] + sum;
      const auto both = (__m512i)_mm512_cvtne2ps_pbh(weights[1].part[0], weights[0].part[0]);
      _mm512_store_si512(work.weights[step][query], both);
    }
  }
}

SLIP_LANES bool is_outgrown(const Lanes& sum) {
  return _mm512_cmp_ps_mask(sum.part[0], broadcast(kOutgrown).part[0], _CMP_GT_OQ) != 0;
}
// The queries whose weight sums exceed the limit of their bases.
SLIP_LANES __mmask16 outgrown(const Lanes* sums, int n) {
  Lanes top = broadcast(0);
#pragma GCC unroll 16
  for (int query = 0; query < kRegisterRows; ++query) {
    if (query < n) top = larger(top, sums[query]);
  }
  if (!is_outgrown(top)) return 0;
  __mmask16 which = 0;
  for (int query = 0; query < n; ++query) which |= static_cast<__mmask16>(is_outgrown(sums[query]) << query);
  return which;
}

template <int kSteps>
SLIP_LANES void weigh(const AttentionTile& tile, RegisterWork& work, QueryState& state) {
  const int n = n_queries_of(tile, work.index);
  Softmax& softmax = state.softmax[work.index];
  Lanes sums[kRegisterRows];
  work.shrink = broadcast(1);
  __mmask16 to_raise = without_base(softmax) & first_lanes(n);
  do {
    if (to_raise != 0) raise_bases<2 * kSteps>(tile, to_raise, work, softmax);
    work.whole ? weigh_queries<kSteps, true>(tile, work, softmax.bases, sums)
               : weigh_queries<kSteps, false>(tile, work, softmax.bases, sums);
    to_raise = outgrown(sums, n);
  } while (to_raise != 0);
#pragma GCC unroll 16
  for (int query = 0; query < kRegisterRows; ++query) {
    if (query >= n) continue;
    float* total = softmax.totals[query];
    store(total, load(total) + sums[query]);
  }
}

SLIP_LANES void shrink_sums(const AttentionTile& tile, const RegisterWork& work, Register* sums) {
  alignas(64) float shrink[kLanes];
  store(shrink, work.shrink);
  for (int query = 0; query < n_queries_of(tile, work.index); ++query) {
    for (int d = 0; d < tile.head_dim; d += kLanes) {
      float* at = sums[d / kLanes][query];
      store(at, load(at) * broadcast(shrink[query]));
    }
  }
}

// Multiplies one step's weights (register 4) with up to 64 dims of values (registers 6 and 7 in turn).
SLIP_LANES void add_step(const Register& weights, const std::byte* values, std::int64_t stride, int n_sums) {
  load_tile<4>(weights, kRegisterBytes);
  bring_register_near(values + 2 * stride);
  load_tile<6>(values, kRegisterBytes);
  multiply_tiles<0, 4, 6>();
  if (n_sums <= 1) return;
  bring_register_near(values + 3 * stride);
  load_tile<7>(values + stride, kRegisterBytes);
  multiply_tiles<1, 4, 7>();
  if (n_sums <= 2) return;
  load_tile<6>(values + 2 * stride, kRegisterBytes);
  multiply_tiles<2, 4, 6>();
  if (n_sums <= 3) return;
  load_tile<7>(values + 3 * stride, kRegisterBytes);
  multiply_tiles<3, 4, 7>();
}

SLIP_LANES void add_values(const AttentionTile& tile, const RegisterWork& work, QueryState& state) {
  Register* sums = state.sums[work.index];
  if (_mm512_cmp_ps_mask(work.shrink.part[0], _mm512_set1_ps(1), _CMP_NEQ_UQ) != 0) shrink_sums(tile, work, sums);
  finish_stores();
  const int n_sums = (tile.head_dim + kLanes - 1) / kLanes;
  for (int first = 0; first < n_sums; first += 4) {
    const int n = n_sums - first;
    load_tile<0>(sums[first], kRegisterBytes);
    if (n > 1) load_tile<1>(sums[first + 1], kRegisterBytes);
    if (n > 2) load_tile<2>(sums[first + 2], kRegisterBytes);
    if (n > 3) load_tile<3>(sums[first + 3], kRegisterBytes);
    for (int step = 0; step < work.n_steps; ++step) {
      const StepValues& values = work.values->steps[step];
      add_step(work.weights[step], values.at + first * values.stride, values.stride, n);
    }
    store_tile<0>(sums[first], kRegisterBytes);
    if (n > 1) store_tile<1>(sums[first + 1], kRegisterBytes);
    if (n > 2) store_tile<2>(sums[first + 2], kRegisterBytes);
    if (n > 3) store_tile<3>(sums[first + 3], kRegisterBytes);
  }
}

// The slots of a block that each row sees.
struct RowsSeen {
  std::uint64_t rows[kAttentionTileRows];
  bool whole;  // every row sees the whole block
};
template <class Sees>
SLIP_LANES RowsSeen rows_seen(const AttentionTile& tile, std::int32_t first, const Sees& sees) {
  RowsSeen seen;
  std::uint64_t all = ~std::uint64_t{0};
  for (int row = 0; row < tile.n_rows; ++row) {
    const RankRange ranks = sees(row) ? ranks_in_block<kBlockSlots>(tile.rows[row], first) : RankRange{0, 0};
    seen.rows[row] = is_empty(ranks) ? 0 : first_bits(ranks.end) & ~first_bits(ranks.begin);
    all &= seen.rows[row];
  }
  seen.whole = ~all == 0;
  return seen;
}

// False when no query of the register sees any slot.
SLIP_LANES bool take_seen(const AttentionTile& tile, const RowsSeen& seen, RegisterWork& work) {
  work.whole = seen.whole;
  if (seen.whole) return true;
  std::uint64_t any = 0;
  for (int place = 0; place < n_queries_of(tile, work.index); ++place) {
    work.seen[place] = seen.rows[(work.index * kRegisterRows + place) / tile.n_heads];
    any |= work.seen[place];
  }
  return any != 0;
}

// Advances the registers through the three steps, each one step behind the previous, from block to block. The tile unit
// works on one register while the vector units compute another's weights, so no step reads what was just stored.
void advance(const AttentionTile& tile, const PagedBlock* block, QueryState& state) {
  const int n = state.n_works++;
  RegisterWork& weighed = state.work[(n + 2) % 3];
  const bool is_to_weigh = n >= 1 && n <= state.n_scored;
  if (n >= 2) {
    const StepValues& values = state.work[(n + 1) % 3].values->steps[0];
    bring_register_near(values.at);
    bring_register_near(values.at + values.stride);
  }
  if (block != nullptr) {
    RegisterWork& scored = state.work[n % 3];
    score(tile, *block, state.queries[scored.index], scored.scores);
    ++state.n_scored;
  }
  if (n >= 2) add_values(tile, state.work[(n + 1) % 3], state);
  if (is_to_weigh) weighed.n_steps == 1 ? weigh<1>(tile, weighed, state) : weigh<2>(tile, weighed, state);
}

template <class Sees>
void attend_block(const AttentionTile& tile, std::int32_t first, const Sees& sees, PagedBlock& block,
                  QueryState& state) {
  StagedValues& values = state.values[state.n_blocks++ % 3];
  find_keys(tile, block);
  find_values(tile, block.at, values);
  const RowsSeen seen = rows_seen(tile, first, sees);
  for (int i = 0; i < n_registers(tile); ++i) {
    RegisterWork& work = state.work[state.n_works % 3];
    work.index = i;
    if (!take_seen(tile, seen, work)) continue;
    work.values = &values;
    work.n_steps = (block.at.n + kStepSlots - 1) / kStepSlots;
    advance(tile, &block, state);
  }
}

void write_queries(const AttentionTile& tile, const QueryState& state) {
  for (int query = 0; query < n_queries(tile); ++query) {
    const int index = query / kRegisterRows, place = query % kRegisterRows;
    float* to = tile.rows[query / tile.n_heads].out + query % tile.n_heads * tile.head_dim;
    const Lanes total = broadcast(sum_lanes(load(state.softmax[index].totals[place])));
    for (int d = 0; d < tile.head_dim; d += kLanes) {
      // Adding zero turns −0 into +0. Otherwise a block with no visible slot could change the sign of zero.
      const Lanes mean = load(state.sums[index][d / kLanes][place]) / total + broadcast(0);
      if (tile.head_dim - d >= kLanes) {
        store(to + d, mean);
      } else {
        store_first(to + d, mean, tile.head_dim - d);
      }
    }
  }
}

// Register use: scores, then sums, in 0 to 3; queries, then weights, in 4; keys or values in 6 and 7.
void amx_attention_tile(const AttentionTile& tile) {
  const FlushDenormals flush;
  PagedBlock block;
  QueryState state;
  begin_queries(tile, state);
  const auto rows = static_cast<std::uint8_t>(n_registers(tile) > 1 ? kRegisterRows : n_queries(tile));
  configure({rows, rows, rows, rows, rows, kRegisterRows, kRegisterRows, kRegisterRows});
  attend_blocks(tile, block, state);
  advance(tile, nullptr, state);
  advance(tile, nullptr, state);
  write_queries(tile, state);
}

}  // namespace
}  // namespace slip::kernels
