// SPDX-License-Identifier: Apache-2.0
// The work of one warp in attention.cuh: scores, softmax weights and weighted values of 32 ranks, for all queries of a
// tile, by the tensor-core instruction. Weights are rounded to bfloat16, as the cache is.
#pragma once

#include "kernels/cuda/attention_view.cuh"
#include "kernels/cuda/matrix_instruction.cuh"

namespace slip::kernels::cuda {

inline constexpr int kDepthAtOnce = 32;  // dimensions of two instructions: 16 bytes of each lane
inline constexpr int kChunkDims = 64;    // output dimensions at once: 8 of each group of lanes
inline constexpr int kSumStride = kChunkDims + 8;
// A query is the sum of two bfloat16: rounded to one, it would cost as much accuracy as the rounded weights do.
inline constexpr int kQueryParts = 2;

// The shared memory of a block.
struct AttentionShared {
  std::uint16_t* queries;  // [kQueryParts][kTileQueries][query_stride], which add up
  std::int64_t* places;    // [warp][rank] offset of the rank's key in elements from DeviceKv::base; negative: none
  float* sums;             // [warp][query][kSumStride] weighted values of a chunk of dimensions
  float* totals;           // [query][dims] of the splits so far, if one block runs all
  float *most, *total;     // [warp][query] greatest score and sum of weights
  float* shrink;           // [warp][query] factor from a warp's weights to the split's
  float *split_most, *split_total, *all_most, *all_total;  // [query] of this split, of the splits so far
  RankView* views;                                         // [kTileQueries], of the tile's rows
  std::int32_t query_stride;
};

SLIP_DEVICE std::int32_t rounded_up(std::int32_t n, std::int32_t to) {
  return (n + to - 1) / to * to;
}
// The stride keeps rows apart by 16 bytes modulo 128, so that eight lanes read from different banks.
SLIP_DEVICE std::int32_t query_stride(std::int32_t head_dim) {
  return rounded_up(head_dim, kDepthAtOnce) + 8;
}
SLIP_DEVICE std::int64_t attention_shared_bytes(std::int32_t head_dim, bool whole) {
  const std::int64_t warps = AttentionBlock::kWarps;
  const std::int64_t floats = warps * kTileQueries * (kSumStride + 3) + kTileQueries * std::int64_t{4} +
                              (whole ? kTileQueries * rounded_up(head_dim, kChunkDims) : 0);
  return kQueryParts * kTileQueries * query_stride(head_dim) * 2 + warps * kWarpRanks * 8 + floats * 4 +
         kTileQueries * static_cast<std::int64_t>(sizeof(RankView));
}
SLIP_DEVICE AttentionShared lay_out(float* memory, std::int32_t head_dim, bool whole) {
  constexpr int kOfWarps = AttentionBlock::kWarps * kTileQueries;
  AttentionShared shared;
  shared.query_stride = query_stride(head_dim);
  shared.places = reinterpret_cast<std::int64_t*>(memory);
  shared.queries = reinterpret_cast<std::uint16_t*>(shared.places + AttentionBlock::kWarps * kWarpRanks);
  shared.sums = reinterpret_cast<float*>(shared.queries + kQueryParts * kTileQueries * shared.query_stride);
  shared.totals = shared.sums + kOfWarps * kSumStride;
  shared.most = shared.totals + (whole ? kTileQueries * rounded_up(head_dim, kChunkDims) : 0);
  shared.total = shared.most + kOfWarps;
  shared.shrink = shared.total + kOfWarps;
  shared.split_most = shared.shrink + kOfWarps;
  shared.split_total = shared.split_most + kTileQueries;
  shared.all_most = shared.split_total + kTileQueries;
  shared.all_total = shared.all_most + kTileQueries;
  shared.views = reinterpret_cast<RankView*>(shared.all_total + kTileQueries);
  return shared;
}

// One block's tile: its rows, and the model's heads [first_head, first_head + n_heads). Query i is head i % n_heads of
// row i / n_heads.
struct TileWork {
  AttentionTileRows rows;
  std::int32_t kv_head, first_head, n_heads;
  SLIP_DEVICE std::int32_t n_queries() const { return rows.n_rows * n_heads; }
  SLIP_DEVICE std::int64_t row_of(std::int32_t query) const { return rows.first_row + query / n_heads; }
  SLIP_DEVICE std::int32_t head_of(std::int32_t query) const { return first_head + query % n_heads; }
};

SLIP_DEVICE TileWork work_of(const AttentionBlock& block, const Attention& job) {
  TileWork work;
  work.rows = job.tiles[block.x];
  work.kv_head = block.y / job.stretches();
  const std::int32_t first = block.y % job.stretches() * job.heads_a_tile;
  work.first_head = work.kv_head * job.group() + first;
  work.n_heads = job.group() - first < job.heads_a_tile ? job.group() - first : job.heads_a_tile;
  return work;
}

SLIP_DEVICE void prepare_tile(const AttentionBlock& block, const Attention& job, const TileWork& work,
                              const AttentionShared& shared) {
  const std::int32_t head_dim = job.kv.head_dim, dims = rounded_up(head_dim, kDepthAtOnce);
  block.each([&](int thread) {
    if (thread < work.rows.n_rows) shared.views[thread] = view_of(job.rows[work.rows.first_row + thread]);
    for (std::int32_t i = thread; i < kTileQueries * dims; i += kAttentionThreads) {
      const std::int32_t query = i / dims, d = i % dims;
      const bool there = query < work.n_queries() && d < head_dim;
      const float* q = job.q + work.row_of(query) * job.q_stride + std::int64_t{work.head_of(query)} * head_dim;
      float rest = there ? q[d] : 0.0F;
      SLIP_UNROLL
      for (int part = 0; part < kQueryParts; ++part) {
        const std::uint16_t bits = round_to_bf16(rest);
        shared.queries[(part * kTileQueries + query) * shared.query_stride + d] = bits;
        rest = rest - widen(bits);
      }
    }
    if (thread < kTileQueries) {
      shared.all_most[thread] = -infinity();
      shared.all_total[thread] = 0;
    }
  });
}

// Eight bfloat16 in a row.
struct alignas(16) EightHalves {
  std::uint32_t pairs[4];
  SLIP_DEVICE std::uint32_t at(int i) const { return pairs[i / 2] >> 16 * (i % 2) & 0xFFFFU; }
};

// Elements d … d + 7 of the row of n at from + place; zeros from n on, and without a place. One load where rows are
// aligned.
SLIP_DEVICE EightHalves load_eight(const std::uint16_t* from, std::int64_t place, std::int32_t d, std::int32_t n) {
  EightHalves out{};
  if (place < 0 || d >= n) return out;
  const std::uint16_t* row = from + place;
  if (n % 8 == 0) return *reinterpret_cast<const EightHalves*>(row + d);
  for (std::int32_t i = 0; i < 8 && d + i < n; ++i) out.pairs[i / 2] |= std::uint32_t{row[d + i]} << 16 * (i % 2);
  return out;
}

// The rows that a warp serves in one pass over its 32 ranks. Pass 0: those for which the ranks are plain, and which
// thus read the same slots. Pass i: row i − 1, if its ranks have gaps.
struct PassRows {
  std::int32_t pass, first_rank;
  std::int32_t leader = -1;  // the row that sees the most of these ranks; −1: no row sees any

  SLIP_DEVICE bool has(const RankView& view, std::int32_t row) const {
    return sees(view, first_rank) &&
           (pass == 0 ? is_plain(view, first_rank) : row == pass - 1 && !is_plain(view, first_rank));
  }
};

SLIP_DEVICE PassRows pass_rows(const TileWork& work, const AttentionShared& shared, std::int32_t pass,
                               std::int32_t first_rank) {
  PassRows rows{pass, first_rank};
  std::int32_t most = 0;
  for (std::int32_t row = 0; row < work.rows.n_rows; ++row) {
    if (!rows.has(shared.views[row], row)) continue;
    const std::int32_t end = ranks_of_warp(shared.views[row], first_rank).end;
    if (end <= most) continue;
    most = end;
    rows.leader = row;
  }
  return rows;
}

// One lane's scores of the warp's ranks: [tile of 8 ranks]. Then weights, as the operands of 16 ranks each.
struct LaneScores {
  SumPart of[kWarpRanks / 8];
};
struct LaneWeights {
  OperandA of[kWarpRanks / 16];
};

// Every lane finds its rank's place in the cache.
SLIP_DEVICE void find_places(const AttentionBlock& block, const Attention& job, const TileWork& work,
                             const AttentionShared& shared, const AttentionBlock::Per<PassRows>& rows) {
  block.each_in_warps([&](int thread) {
    const std::int32_t leader = rows[thread].leader, rank = rows[thread].first_rank + thread % kWarp;
    std::int64_t place = -1;
    if (leader >= 0 && rank < shared.views[leader].n_visible) {
      const DeviceRow& view = job.rows[work.rows.first_row + leader];
      const std::int32_t slot = slot_of_rank(view, shared.views[leader], rank);
      place = job.kv.at(view.pages[slot / job.kv.page_tokens], slot, work.kv_head);
    }
    shared.places[thread] = place;
  });
}

// scores = Σ q · k over the dimensions, which both operands take in the same order: of 32, lane t has eight.
SLIP_DEVICE void score(const AttentionBlock& block, const Attention& job, const AttentionShared& shared,
                       AttentionBlock::Per<LaneScores>& scores) {
  block.each_apart([&](int thread) { scores[thread] = LaneScores{}; });
  for (std::int32_t d = 0; d < job.kv.head_dim; d += kDepthAtOnce) {
    struct Loaded {
      EightHalves queries[kQueryParts][2], keys[kWarpRanks / 8];  // queries g and g + 8
    };
    AttentionBlock::Per<Loaded> loaded;
    block.each_apart([&](int thread) {
      const int warp = thread / kWarp, g = thread % kWarp / 4, t = thread % 4;
      SLIP_UNROLL
      for (int i = 0; i < kWarpRanks / 8; ++i) {
        const std::int64_t place = shared.places[warp * kWarpRanks + 8 * i + g];
        loaded[thread].keys[i] = load_eight(job.kv.base, place, d + 8 * t, job.kv.head_dim);
      }
      SLIP_UNROLL
      for (int i = 0; i < kQueryParts * 2; ++i) {
        const std::uint16_t* from =
            shared.queries + (i / 2 * kTileQueries + g + i % 2 * 8) * shared.query_stride + d + 8 * t;
        loaded[thread].queries[i / 2][i % 2] = *reinterpret_cast<const EightHalves*>(from);
      }
    });
    SLIP_UNROLL
    for (int step = 0; step < 2 * kQueryParts; ++step) {
      const int half = step / kQueryParts, part = step % kQueryParts;
      SLIP_UNROLL
      for (int i = 0; i < kWarpRanks / 8; ++i) {
        multiply_in_warps(
            block,
            [&](int thread) {
              const auto& [early, late] = loaded[thread].queries[part];
              return OperandA{
                  {early.pairs[2 * half], late.pairs[2 * half], early.pairs[2 * half + 1], late.pairs[2 * half + 1]}};
            },
            [&](int thread) {
              const EightHalves& key = loaded[thread].keys[i];
              return OperandB{{key.pairs[2 * half], key.pairs[2 * half + 1]}};
            },
            [&](int thread) -> SumPart& { return scores[thread].of[i]; });
      }
    }
  }
}

// Scores become weights relative to the greatest of the warp's ranks, zero where a query's row sees nothing; both sums
// go to shared memory. Queries of other passes keep what is there.
SLIP_DEVICE void weigh(const AttentionBlock& block, const Attention& job, const TileWork& work,
                       const AttentionShared& shared, const AttentionBlock::Per<PassRows>& rows,
                       AttentionBlock::Per<LaneScores>& scores, AttentionBlock::Per<LaneWeights>& weights) {
  struct Seen {
    Ranks ranks[2];  // of queries g and g + 8
    SLIP_DEVICE bool has(int i, int rank) const { return rank >= ranks[i].begin && rank < ranks[i].end; }
  };
  AttentionBlock::Per<Seen> seen;
  AttentionBlock::Per<float> most[2], total[2];  // of queries g and g + 8
  block.each_apart([&](int thread) {
    const int g = thread % kWarp / 4, t = thread % 4;
    SLIP_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::int32_t query = g + 8 * i, row = query / work.n_heads;
      seen[thread].ranks[i] = {0, 0};
      if (query < work.n_queries() && rows[thread].has(shared.views[row], row)) {
        seen[thread].ranks[i] = ranks_of_warp(shared.views[row], rows[thread].first_rank);
      }
      float greatest = -infinity();
      SLIP_UNROLL
      for (int j = 0; j < kWarpRanks / 4; ++j) {
        float& one = scores[thread].of[j / 2].of[2 * i + j % 2];
        one = seen[thread].has(i, j / 2 * 8 + 2 * t + j % 2) ? one * job.scale : -infinity();
        greatest = Larger{}(greatest, one);
      }
      most[i][thread] = greatest;
    }
  });
  for (auto& of_query : most) block.combine_in_quads(of_query, Larger{});
  block.each_apart([&](int thread) {
    const int t = thread % 4;
    SLIP_UNROLL
    for (int i = 0; i < 2; ++i) {
      total[i][thread] = 0;
      SLIP_UNROLL
      for (int j = 0; j < kWarpRanks / 4; ++j) {
        float& one = scores[thread].of[j / 2].of[2 * i + j % 2];
        one = seen[thread].has(i, j / 2 * 8 + 2 * t + j % 2) ? exponential(one - most[i][thread]) : 0.0F;
        total[i][thread] = total[i][thread] + one;
      }
    }
    SLIP_UNROLL
    for (int i = 0; i < kWarpRanks / 16; ++i) {
      const SumPart &early = scores[thread].of[2 * i], &late = scores[thread].of[2 * i + 1];
      weights[thread].of[i] = {{pair_of(early.of[0], early.of[1]), pair_of(early.of[2], early.of[3]),
                                pair_of(late.of[0], late.of[1]), pair_of(late.of[2], late.of[3])}};
    }
  });
  for (auto& of_query : total) block.combine_in_quads(of_query, Add{});
  block.each_apart([&](int thread) {
    const int warp = thread / kWarp, g = thread % kWarp / 4;
    SLIP_UNROLL
    for (int i = 0; i < 2; ++i) {
      const bool is_of_pass = seen[thread].ranks[i].begin < seen[thread].ranks[i].end;
      if (thread % 4 != 0 || (rows[thread].pass > 0 && !is_of_pass)) continue;
      shared.most[warp * kTileQueries + g + 8 * i] = most[i][thread];
      shared.total[warp * kTileQueries + g + 8 * i] = total[i][thread];
    }
  });
}

// sums = Σ weight · value over the warp's ranks, for dimensions [d, d + 64): the lanes of group g read eight of them,
// and instruction i gives the i-th of every eight.
SLIP_DEVICE void add_values(const AttentionBlock& block, const Attention& job, const TileWork& work,
                            const AttentionShared& shared, const AttentionBlock::Per<PassRows>& rows, std::int32_t d,
                            const AttentionBlock::Per<LaneWeights>& weights) {
  constexpr int kTiles = kWarpRanks / 16;
  struct Loaded {
    EightHalves values[kTiles][4];  // of ranks 2 t, 2 t + 1, 2 t + 8 and 2 t + 9
    SumPart sums[8];
  };
  AttentionBlock::Per<Loaded> loaded;
  block.each_apart([&](int thread) {
    const int warp = thread / kWarp, g = thread % kWarp / 4, t = thread % 4;
    SLIP_UNROLL
    for (int i = 0; i < kTiles * 4; ++i) {
      const int rank = i / 4 * 16 + 2 * t + i % 4 / 2 * 8 + i % 2;
      const std::int64_t place = shared.places[warp * kWarpRanks + rank];
      loaded[thread].values[i / 4][i % 4] =
          load_eight(job.kv.base + job.kv.value_offset(), place, d + 8 * g, job.kv.head_dim);
    }
    SLIP_UNROLL
    for (int i = 0; i < 8; ++i) loaded[thread].sums[i] = SumPart{};
  });
  SLIP_UNROLL
  for (int tile = 0; tile < kTiles; ++tile) {
    SLIP_UNROLL
    for (int i = 0; i < 8; ++i) {
      multiply_in_warps(
          block, [&](int thread) { return weights[thread].of[tile]; },
          [&](int thread) {
            const auto& values = loaded[thread].values[tile];
            return OperandB{{values[0].at(i) | values[1].at(i) << 16, values[2].at(i) | values[3].at(i) << 16}};
          },
          [&](int thread) -> SumPart& { return loaded[thread].sums[i]; });
    }
  }
  block.each_apart([&](int thread) {
    const int warp = thread / kWarp, g = thread % kWarp / 4, t = thread % 4;
    SLIP_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::int32_t query = g + 8 * i, row = query / work.n_heads;
      if (rows[thread].pass > 0 && !(query < work.n_queries() && rows[thread].has(shared.views[row], row))) continue;
      float* to = shared.sums + (warp * kTileQueries + query) * kSumStride + 16 * t;
      SLIP_UNROLL
      for (int j = 0; j < 16; ++j) to[j] = loaded[thread].sums[j % 8].of[2 * i + j / 8];
    }
  });
}

}  // namespace slip::kernels::cuda
