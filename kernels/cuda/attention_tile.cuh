// SPDX-License-Identifier: Apache-2.0
// Process one staged block of 32 ranks: scores, softmax weights and sums of values (for attention.cuh).
#pragma once

#include "kernels/cuda/attention_view.cuh"

namespace slip::kernels::cuda {

struct alignas(16) Four {
  float of[4];
};

// The shared memory of one tile, for `n_queries` of `dims` (a multiple of four) each.
struct AttentionShared {
  float* keys;     // [32][dims + 4]: with this stride a quarter warp's 16-byte reads cover all banks
  float* values;   // [32][dims]
  float* queries;  // [n_queries][dims]
  float* sums;     // [n_queries][dims] of this split
  float* totals;   // [n_queries][dims] of the splits before it
  float* weights;  // [n_queries][32]
  float *most, *total, *all_most, *all_total;  // [n_queries]
  RankView* views;                             // [kMostTileRows]
};

SLIP_DEVICE std::int32_t padded_dims(std::int32_t head_dim) {
  return (head_dim + 3) / 4 * 4;
}
SLIP_DEVICE std::int64_t attention_shared_bytes(std::int32_t head_dim, std::int32_t n_queries, bool whole) {
  const std::int64_t dims = padded_dims(head_dim);
  const std::int64_t floats = kBlockRanks * (2 * dims + 4) + n_queries * ((whole ? 3 : 2) * dims + kBlockRanks + 4);
  return floats * 4 + kMostTileRows * static_cast<std::int64_t>(sizeof(RankView));
}
SLIP_DEVICE AttentionShared lay_out(float* memory, std::int32_t head_dim, std::int32_t n_queries, bool whole) {
  const std::int64_t dims = padded_dims(head_dim);
  AttentionShared shared;
  shared.keys = memory;
  shared.values = shared.keys + kBlockRanks * (dims + 4);
  shared.queries = shared.values + kBlockRanks * dims;
  shared.sums = shared.queries + n_queries * dims;
  shared.totals = shared.sums + n_queries * dims;
  shared.weights = shared.totals + (whole ? n_queries * dims : 0);
  shared.most = shared.weights + n_queries * kBlockRanks;
  shared.total = shared.most + n_queries;
  shared.all_most = shared.total + n_queries;
  shared.all_total = shared.all_most + n_queries;
  shared.views = reinterpret_cast<RankView*>(shared.all_total + n_queries);
  return shared;
}

// One block's tile: its rows, the model's heads [first_head, first_head + n_heads), and its shared memory.
struct TileWork {
  AttentionTileRows rows;
  std::int32_t kv_head, first_head, n_heads, dims;
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
  work.dims = padded_dims(job.kv.head_dim);
  return work;
}

SLIP_DEVICE void prepare_tile(const AttentionBlock& block, const Attention& job, const TileWork& work,
                              const AttentionShared& shared) {
  block.each([&](int thread) {
    if (thread < work.rows.n_rows) shared.views[thread] = view_of(job.rows[work.rows.first_row + thread]);
    for (std::int32_t i = thread; i < work.n_queries() * work.dims; i += kAttentionThreads) {
      const std::int32_t query = i / work.dims, d = i % work.dims;
      const float* q = job.q + work.row_of(query) * job.q_stride + std::int64_t{work.head_of(query)} * job.kv.head_dim;
      shared.queries[i] = d < job.kv.head_dim ? q[d] : 0.0F;
    }
    for (std::int32_t query = thread; query < work.n_queries(); query += kAttentionThreads) {
      shared.all_most[query] = -infinity();
      shared.all_total[query] = 0;
    }
  });
}

SLIP_DEVICE void clear_split(const AttentionBlock& block, const TileWork& work, const AttentionShared& shared) {
  block.each([&](int thread) {
    for (std::int32_t i = thread; i < work.n_queries() * work.dims; i += kAttentionThreads) shared.sums[i] = 0;
    for (std::int32_t query = thread; query < work.n_queries(); query += kAttentionThreads) {
      shared.most[query] = -infinity();
      shared.total[query] = 0;
    }
  });
}

// Eight bfloat16, loaded at once where the cache rows' alignment allows it.
struct alignas(16) EightHalves {
  std::uint16_t of[8];
};

SLIP_DEVICE void widen_row(const std::uint16_t* from, std::int32_t d, bool wide, float* to) {
  if (!wide) {
    to[d] = widen(from[d]);
    return;
  }
  const EightHalves halves = *reinterpret_cast<const EightHalves*>(from + d);
  SLIP_UNROLL
  for (int i = 0; i < 8; ++i) to[d + i] = widen(halves.of[i]);
}

// Stages the keys and values of the block's first n ranks, as row `row` of the sequence sees them.
SLIP_DEVICE void stage(const AttentionBlock& block, const Attention& job, const TileWork& work, std::int32_t row,
                       std::int32_t first, std::int32_t n, const AttentionShared& shared) {
  const DeviceRow& view = job.rows[work.rows.first_row + row];
  const std::int32_t head_dim = job.kv.head_dim;
  const bool wide = head_dim % 8 == 0;
  const std::int32_t step = wide ? 8 : 1, parts = head_dim / step;
  block.each([&](int thread) {
    for (std::int32_t i = thread; i < n * parts; i += kAttentionThreads) {
      const std::int32_t rank = i / parts, d = i % parts * step;
      const std::int32_t slot = slot_of_rank(view, shared.views[row], first + rank);
      const std::uint16_t* key = job.kv.base + job.kv.at(view.pages[slot / job.kv.page_tokens], slot, work.kv_head);
      widen_row(key, d, wide, shared.keys + rank * (work.dims + 4));
      widen_row(key + job.kv.value_offset(), d, wide, shared.values + rank * work.dims);
    }
    for (std::int32_t i = thread; i < kBlockRanks * (work.dims - head_dim); i += kAttentionThreads) {
      const std::int32_t rank = i / (work.dims - head_dim), d = head_dim + i % (work.dims - head_dim);
      shared.keys[rank * (work.dims + 4) + d] = 0;
      shared.values[rank * work.dims + d] = 0;
    }
  });
}

// Scores of up to kAtOnce queries per warp against the staged keys, one rank per lane, summed over the dimensions in
// order. Then softmax weights relative to the running maximum. Queries first + i · warps, below `end`.
template <int kAtOnce>
struct Scores {
  float of[kAtOnce];
};

template <int kAtOnce>
SLIP_DEVICE void score(const TileWork& work, const AttentionShared& shared, std::int32_t first, std::int32_t end,
                       int lane, float scale, Scores<kAtOnce>& scores) {
  SLIP_UNROLL
  for (int i = 0; i < kAtOnce; ++i) scores.of[i] = 0;
  const float* key = shared.keys + lane * (work.dims + 4);
  for (std::int32_t d = 0; d < work.dims; d += 4) {
    const Four k = *reinterpret_cast<const Four*>(key + d);
    SLIP_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int32_t query = first + i * AttentionBlock::kWarps;
      if (query >= end) continue;
      const Four q = *reinterpret_cast<const Four*>(shared.queries + query * work.dims + d);
      SLIP_UNROLL
      for (int j = 0; j < 4; ++j) scores.of[i] = fused(q.of[j], k.of[j], scores.of[i]);
    }
  }
  SLIP_UNROLL
  for (int i = 0; i < kAtOnce; ++i) scores.of[i] = scores.of[i] * scale;
}

// Each warp handles one of the queries [query, query + warps): scores become weights, and earlier sums shrink as the
// maximum grows.
template <int kAtOnce>
SLIP_DEVICE void weigh(const AttentionBlock& block, const TileWork& work, const AttentionShared& shared,
                       std::int32_t begin, std::int32_t end, std::int32_t first_rank, int i,
                       AttentionBlock::Per<Scores<kAtOnce>>& scores, AttentionBlock::Per<Scores<kAtOnce>>& shrink) {
  AttentionBlock::Per<float> most, sum;
  block.each_apart([&](int thread) {
    const std::int32_t query = begin + thread / kWarp + i * AttentionBlock::kWarps, lane = thread % kWarp;
    most[thread] = -infinity();
    if (query >= end) return;
    const Ranks ranks = ranks_in_block(shared.views[query / work.n_heads], first_rank);
    if (lane < ranks.begin || lane >= ranks.end) scores[thread].of[i] = -infinity();
    most[thread] = Larger{}(-infinity(), scores[thread].of[i]);
  });
  block.combine_in_warps(most, Larger{});
  block.each_in_warps([&](int thread) {
    const std::int32_t query = begin + thread / kWarp + i * AttentionBlock::kWarps;
    sum[thread] = 0;
    if (query >= end) return;
    const float before = shared.most[query];
    const bool grows = !(most[thread] <= before);
    const float now = grows ? most[thread] : before;
    shrink[thread].of[i] = grows ? exponential(before - now) : 1.0F;
    most[thread] = now;
    sum[thread] = exponential(scores[thread].of[i] - now);
    shared.weights[query * kBlockRanks + thread % kWarp] = sum[thread];
  });
  block.combine_in_warps(sum, Add{});
  block.each_in_warps([&](int thread) {
    const std::int32_t query = begin + thread / kWarp + i * AttentionBlock::kWarps;
    if (query >= end || thread % kWarp != 0) return;
    shared.most[query] = most[thread];
    shared.total[query] = shared.total[query] * shrink[thread].of[i] + sum[thread];
  });
}

// sums = sums · shrink + Σ weight · value, over the ranks in order; each lane takes four dimensions.
template <int kAtOnce>
SLIP_DEVICE void add_values(const TileWork& work, const AttentionShared& shared, std::int32_t first, std::int32_t end,
                            std::int32_t first_rank, int lane, const Scores<kAtOnce>& shrink) {
  Ranks ranks[kAtOnce];
  std::int32_t begin_rank = kBlockRanks, end_rank = 0;
  SLIP_UNROLL
  for (int i = 0; i < kAtOnce; ++i) {
    const std::int32_t query = first + i * AttentionBlock::kWarps;
    ranks[i] = query < end ? ranks_in_block(shared.views[query / work.n_heads], first_rank) : Ranks{kBlockRanks, 0};
    begin_rank = ranks[i].begin < begin_rank ? ranks[i].begin : begin_rank;
    end_rank = ranks[i].end > end_rank ? ranks[i].end : end_rank;
  }
  for (std::int32_t d = 4 * lane; d < work.dims; d += 4 * kWarp) {
    Four sums[kAtOnce];
    SLIP_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int32_t query = first + i * AttentionBlock::kWarps;
      if (query >= end) continue;
      sums[i] = *reinterpret_cast<const Four*>(shared.sums + query * work.dims + d);
      SLIP_UNROLL
      for (int j = 0; j < 4; ++j) sums[i].of[j] = sums[i].of[j] * shrink.of[i];
    }
    for (std::int32_t rank = begin_rank; rank < end_rank; ++rank) {
      const Four value = *reinterpret_cast<const Four*>(shared.values + rank * work.dims + d);
      SLIP_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        if (rank < ranks[i].begin || rank >= ranks[i].end) continue;
        const float weight = shared.weights[(first + i * AttentionBlock::kWarps) * kBlockRanks + rank];
        SLIP_UNROLL
        for (int j = 0; j < 4; ++j) sums[i].of[j] = fused(weight, value.of[j], sums[i].of[j]);
      }
    }
    SLIP_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int32_t query = first + i * AttentionBlock::kWarps;
      if (query < end) *reinterpret_cast<Four*>(shared.sums + query * work.dims + d) = sums[i];
    }
  }
}

}  // namespace slip::kernels::cuda
