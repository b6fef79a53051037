// SPDX-License-Identifier: Apache-2.0
// Paged attention for several query rows per sequence, with the semantics of kernels/attention.h.
//
// A block takes a tile: some rows of one sequence and some query heads of one key head, at most 16 queries, which are
// the rows of the tensor-core instruction. So verifying a few rows costs what one costs. Visible ranks are divided into
// splits of 256, counted from rank 0, and each of a block's eight warps takes 32 ranks of a split. A warp's weights are
// relative to its own greatest score; the warps' sums are merged in order, then the splits' (Dao et al.,
// Flash-Decoding, 2023). Either one block runs all splits, or each split is a block and combine_splits() merges them.
// Both do the same operations on a row in the same order, independent of the tile's other rows.
#pragma once

#include "kernels/cuda/attention_tile.cuh"

namespace slip::kernels::cuda {

// The warps' factors to the greatest score of the split, and the split's sums.
SLIP_DEVICE void merge_warps(const AttentionBlock& block, const AttentionShared& shared) {
  block.each([&](int query) {
    if (query >= kTileQueries) return;
    float most = -infinity(), total = 0;
    SLIP_UNROLL
    for (int warp = 0; warp < AttentionBlock::kWarps; ++warp) {
      most = Larger{}(most, shared.most[warp * kTileQueries + query]);
    }
    SLIP_UNROLL
    for (int warp = 0; warp < AttentionBlock::kWarps; ++warp) {
      const int at = warp * kTileQueries + query;
      shared.shrink[at] = shared.most[at] > -infinity() ? exponential(shared.most[at] - most) : 0.0F;
      total = total + shared.total[at] * shared.shrink[at];
    }
    shared.split_most[query] = most;
    shared.split_total[query] = total;
  });
}

// The factors that merge the sums of the splits so far with the next split's, and the greater score. A split without
// any visible rank has total 0 and is skipped.
struct Merge {
  float before, next, most;
};
SLIP_DEVICE Merge merge_of(float most, float next_most) {
  const float greater = Larger{}(most, next_most);
  return {exponential(most - greater), exponential(next_most - greater), greater};
}

// Takes dimensions [d, d + 64) of the split, as merged from the warps: into the totals, or to the split's own place.
SLIP_DEVICE void take_chunk(const AttentionBlock& block, const Attention& job, const TileWork& work,
                            const AttentionShared& shared, std::int32_t split, std::int32_t d) {
  const std::int32_t stride = rounded_up(job.kv.head_dim, kChunkDims);
  block.each([&](int thread) {
    for (std::int32_t i = thread; i < work.n_queries() * kChunkDims; i += kAttentionThreads) {
      const std::int32_t query = i / kChunkDims, at = i % kChunkDims;
      if (d + at >= job.kv.head_dim) continue;
      float sum = 0;
      SLIP_UNROLL
      for (int warp = 0; warp < AttentionBlock::kWarps; ++warp) {
        const int of_warp = warp * kTileQueries + query;
        sum = sum + shared.sums[of_warp * kSumStride + at] * shared.shrink[of_warp];
      }
      if (!job.whole) {
        job.partial_of(work.row_of(query), work.head_of(query), split)[2 + d + at] = sum;
        continue;
      }
      if (shared.split_total[query] == 0) continue;
      float& total = shared.totals[query * stride + d + at];
      if (shared.all_total[query] == 0) {
        total = sum;
      } else {
        const Merge merge = merge_of(shared.all_most[query], shared.split_most[query]);
        total = total * merge.before + sum * merge.next;
      }
    }
  });
}

// After the last chunk: the split's greatest score and total.
SLIP_DEVICE void take_split(const AttentionBlock& block, const Attention& job, const TileWork& work,
                            const AttentionShared& shared, std::int32_t split) {
  block.each([&](int query) {
    if (query >= work.n_queries()) return;
    const float most = shared.split_most[query], total = shared.split_total[query];
    if (!job.whole) {
      float* to = job.partial_of(work.row_of(query), work.head_of(query), split);
      to[0] = most;
      to[1] = total;
    } else if (total == 0) {
      return;
    } else if (shared.all_total[query] == 0) {
      shared.all_total[query] = total;
      shared.all_most[query] = most;
    } else {
      const Merge merge = merge_of(shared.all_most[query], most);
      shared.all_total[query] = shared.all_total[query] * merge.before + total * merge.next;
      shared.all_most[query] = merge.most;
    }
  });
}

SLIP_DEVICE void attend_split(const AttentionBlock& block, const Attention& job, const TileWork& work,
                              const AttentionShared& shared, std::int32_t split, std::int32_t n_passes) {
  AttentionBlock::Per<PassRows> rows;
  AttentionBlock::Per<LaneScores> scores;
  AttentionBlock::Per<LaneWeights> weights;
  for (std::int32_t d = 0; d < job.kv.head_dim; d += kChunkDims) {
    for (std::int32_t pass = 0; pass < n_passes; ++pass) {
      if (d == 0 || n_passes > 1) {  // else the weights are still there
        block.each_apart([&](int thread) {
          rows[thread] = pass_rows(work, shared, pass, split * kSplitRanks + thread / kWarp * kWarpRanks);
        });
        find_places(block, job, work, shared, rows);
        score(block, job, shared, scores);
        weigh(block, job, work, shared, rows, scores, weights);
      }
      add_values(block, job, work, shared, rows, d, weights);
      block.each_in_warps([](int) {});  // the next pass overwrites the places
    }
    block.each([](int) {});  // all warps' sums are there
    if (d == 0) merge_warps(block, shared);
    take_chunk(block, job, work, shared, split, d);
  }
  take_split(block, job, work, shared, split);
}

SLIP_DEVICE void put_attended(const Attention& job, std::int64_t row, std::int32_t head, std::int32_t d, float value) {
  const std::int64_t at = std::int64_t{head} * job.kv.head_dim + d;
  if (job.out != nullptr) job.out[row * job.out_stride + at] = value;
  if (job.activations == nullptr) return;
  job.activations[activation_at(row, at, job.width())] = round_to_bf16(value);
  if (at + 1 < job.width()) return;
  for (std::int64_t i = job.width(); i < depth_tiles(job.width()) * kTileDepth; ++i) {
    job.activations[activation_at(row, i, job.width())] = 0;
  }
}

SLIP_DEVICE void write_whole(const AttentionBlock& block, const Attention& job, const TileWork& work,
                             const AttentionShared& shared) {
  const std::int32_t head_dim = job.kv.head_dim, stride = rounded_up(head_dim, kChunkDims);
  block.each_apart([&](int thread) {
    for (std::int32_t i = thread; i < work.n_queries() * head_dim; i += kAttentionThreads) {
      const std::int32_t query = i / head_dim, d = i % head_dim;
      put_attended(job, work.row_of(query), work.head_of(query), d,
                   shared.totals[query * stride + d] / shared.all_total[query]);
    }
  });
}

// Grid (x, y, z): x the tile; y the key head and its stretch of query heads; z the split, unless `whole`.
SLIP_DEVICE void attend(const AttentionBlock& block, const Attention& job, float* memory) {
  const TileWork work = work_of(block, job);
  if (work.rows.n_rows == 0) return;
  const AttentionShared shared = lay_out(memory, job.kv.head_dim, job.whole);
  prepare_tile(block, job, work, shared);
  std::int32_t begin = shared.views[0].first_visible, end = 0;
  bool gaps = false;
  for (std::int32_t row = 0; row < work.rows.n_rows; ++row) {
    const RankView& view = shared.views[row];
    begin = view.first_visible < begin ? view.first_visible : begin;
    end = view.n_visible > end ? view.n_visible : end;
    gaps = gaps || view.n_plain < view.n_visible;
  }
  const std::int32_t n_passes = gaps ? 1 + work.rows.n_rows : 1;
  const std::int32_t first_split = begin / kSplitRanks, n_splits = (end + kSplitRanks - 1) / kSplitRanks;
  if (!job.whole) {
    if (block.z >= first_split && block.z < n_splits) attend_split(block, job, work, shared, block.z, n_passes);
    return;
  }
  for (std::int32_t split = first_split; split < n_splits; ++split) {
    attend_split(block, job, work, shared, split, n_passes);
  }
  write_whole(block, job, work, shared);
}

inline constexpr int kCombineThreads = 128;
inline constexpr int kSplitsAtOnce = 8;  // whose sums are loaded together

// Grid (row, head): merges the splits of one row and head in order.
SLIP_DEVICE void combine_splits(const Block<kCombineThreads>& block, const Attention& job) {
  if (job.rows[block.x].pages == nullptr) return;
  const RankView view = view_of(job.rows[block.x]);
  const std::int32_t first = view.first_visible / kSplitRanks, end = (view.n_visible + kSplitRanks - 1) / kSplitRanks;
  block.each_apart([&](int thread) {
    for (std::int32_t d = thread; d < job.kv.head_dim; d += kCombineThreads) {
      float most = 0, total = 0, sum = 0;
      for (std::int32_t split = first; split < end; split += kSplitsAtOnce) {
        float next_most[kSplitsAtOnce], next_total[kSplitsAtOnce], next_sum[kSplitsAtOnce];
        SLIP_UNROLL
        for (int i = 0; i < kSplitsAtOnce; ++i) {
          const float* next = job.partial_of(block.x, block.y, split + i < end ? split + i : first);
          next_most[i] = next[0];
          next_total[i] = split + i < end ? next[1] : 0;
          next_sum[i] = next[2 + d];
        }
        SLIP_UNROLL
        for (int i = 0; i < kSplitsAtOnce; ++i) {
          if (next_total[i] == 0) continue;
          if (total == 0) {
            most = next_most[i];
            total = next_total[i];
            sum = next_sum[i];
            continue;
          }
          const Merge merge = merge_of(most, next_most[i]);
          sum = sum * merge.before + next_sum[i] * merge.next;
          total = total * merge.before + next_total[i] * merge.next;
          most = merge.most;
        }
      }
      put_attended(job, block.x, block.y, d, sum / total);
    }
  });
}

}  // namespace slip::kernels::cuda
