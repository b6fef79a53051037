// SPDX-License-Identifier: Apache-2.0
// Paged attention for several query rows per sequence, with the semantics of kernels/attention.h.
//
// A block takes a tile: some rows of one sequence and some query heads of one key head. It stages keys and values once
// for all of them. Visible ranks are divided into splits of 256 and these into blocks of 32, both counted from rank 0.
// Softmax runs online over the blocks of a split (Milakov and Gimelshein, 2018), and the splits are merged in order.
// Either one block runs all splits, or each split is a block and combine_splits() merges them. Both do the same
// operations on a row in the same order, independent of the tile's other rows.
#pragma once

#include "kernels/cuda/attention_tile.cuh"

namespace slip::kernels::cuda {

// Processes queries [begin, end) against the staged block, kAtOnce per warp. The caller leaves out rows that see
// nothing of the block, or see it with gaps while others do not.
template <int kAtOnce>
SLIP_DEVICE void attend_queries(const AttentionBlock& block, const Attention& job, const TileWork& work,
                                const AttentionShared& shared, std::int32_t begin, std::int32_t end,
                                std::int32_t first_rank) {
  for (std::int32_t first = begin; first < end; first += kAtOnce * AttentionBlock::kWarps) {
    AttentionBlock::Per<Scores<kAtOnce>> scores, shrink;
    block.each_apart([&](int thread) {
      score(work, shared, first + thread / kWarp, end, thread % kWarp, job.scale, scores[thread]);
    });
    SLIP_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      weigh<kAtOnce>(block, work, shared, first, end, first_rank, i, scores, shrink);
    }
    block.each_in_warps([&](int thread) {
      add_values(work, shared, first + thread / kWarp, end, first_rank, thread % kWarp, shrink[thread]);
    });
  }
  block.each([](int) {});  // the staged block may be overwritten now
}

SLIP_DEVICE void attend_rows(const AttentionBlock& block, const Attention& job, const TileWork& work,
                             const AttentionShared& shared, Ranks rows, std::int32_t first_rank) {
  const std::int32_t begin = rows.begin * work.n_heads, end = rows.end * work.n_heads;
  if (end - begin <= 2 * AttentionBlock::kWarps) {
    attend_queries<1>(block, job, work, shared, begin, end, first_rank);
  } else {
    attend_queries<4>(block, job, work, shared, begin, end, first_rank);
  }
}

// Processes the 32 ranks from `first` on: once for all rows that see them without gaps, then once for each other row.
SLIP_DEVICE void attend_block(const AttentionBlock& block, const Attention& job, const TileWork& work,
                              const AttentionShared& shared, std::int32_t first) {
  std::int32_t n = 0, widest = 0;
  for (std::int32_t r = 0; r < work.rows.n_rows; ++r) {
    const RankView& view = shared.views[r];
    if (!sees(view, first) || !is_plain(view, first)) continue;
    const std::int32_t end = ranks_in_block(view, first).end;
    widest = end > n ? r : widest;
    n = end > n ? end : n;
  }
  if (n > 0) {
    stage(block, job, work, widest, first, n, shared);
    for (std::int32_t r = 0; r < work.rows.n_rows;) {  // runs of rows without gaps
      std::int32_t end = r;
      while (end < work.rows.n_rows && sees(shared.views[end], first) && is_plain(shared.views[end], first)) ++end;
      if (end > r) attend_rows(block, job, work, shared, {r, end}, first);
      r = end + 1;
    }
  }
  for (std::int32_t r = 0; r < work.rows.n_rows; ++r) {
    const RankView& view = shared.views[r];
    if (!sees(view, first) || is_plain(view, first)) continue;
    stage(block, job, work, r, first, ranks_in_block(view, first).end, shared);
    attend_rows(block, job, work, shared, {r, r + 1}, first);
  }
}

// Merges the sums of the splits so far with the next split's. A split without any visible rank has total 0 and is
// skipped.
struct Merge {
  float before, next, most;
};
SLIP_DEVICE Merge merge_of(float most, float next_most) {
  const float greater = Larger{}(most, next_most);
  return {exponential(most - greater), exponential(next_most - greater), greater};
}

SLIP_DEVICE void merge_split(const AttentionBlock& block, const TileWork& work, const AttentionShared& shared) {
  block.each([&](int thread) {
    for (std::int32_t i = thread; i < work.n_queries() * work.dims; i += kAttentionThreads) {
      const std::int32_t query = i / work.dims;
      if (shared.total[query] == 0) continue;
      if (shared.all_total[query] == 0) {
        shared.totals[i] = shared.sums[i];
      } else {
        const Merge merge = merge_of(shared.all_most[query], shared.most[query]);
        shared.totals[i] = shared.totals[i] * merge.before + shared.sums[i] * merge.next;
      }
    }
  });
  block.each([&](int thread) {
    for (std::int32_t query = thread; query < work.n_queries(); query += kAttentionThreads) {
      if (shared.total[query] == 0) continue;
      if (shared.all_total[query] == 0) {
        shared.all_total[query] = shared.total[query];
        shared.all_most[query] = shared.most[query];
      } else {
        const Merge merge = merge_of(shared.all_most[query], shared.most[query]);
        shared.all_total[query] = shared.all_total[query] * merge.before + shared.total[query] * merge.next;
        shared.all_most[query] = merge.most;
      }
    }
  });
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
  block.each_apart([&](int thread) {
    for (std::int32_t i = thread; i < work.n_queries() * work.dims; i += kAttentionThreads) {
      const std::int32_t query = i / work.dims, d = i % work.dims;
      if (d < job.kv.head_dim) {
        put_attended(job, work.row_of(query), work.head_of(query), d, shared.totals[i] / shared.all_total[query]);
      }
    }
  });
}

SLIP_DEVICE void write_partial(const AttentionBlock& block, const Attention& job, const TileWork& work,
                               const AttentionShared& shared, std::int32_t split) {
  block.each_apart([&](int thread) {
    for (std::int32_t i = thread; i < work.n_queries() * work.dims; i += kAttentionThreads) {
      const std::int32_t query = i / work.dims, d = i % work.dims;
      float* to = job.partial_of(work.row_of(query), work.head_of(query), split);
      if (d < job.kv.head_dim) to[2 + d] = shared.sums[i];
      if (d == 0) to[0] = shared.most[query];
      if (d == 0) to[1] = shared.total[query];
    }
  });
}

// Grid (x, y, z): x the tile; y the key head and its stretch of query heads; z the split, unless `whole`.
SLIP_DEVICE void attend(const AttentionBlock& block, const Attention& job, float* memory) {
  const TileWork work = work_of(block, job);
  if (work.rows.n_rows == 0) return;
  const AttentionShared shared = lay_out(memory, job.kv.head_dim, work.n_queries(), job.whole);
  prepare_tile(block, job, work, shared);
  std::int32_t begin = shared.views[0].first_visible, end = 0;
  for (std::int32_t r = 0; r < work.rows.n_rows; ++r) {
    begin = shared.views[r].first_visible < begin ? shared.views[r].first_visible : begin;
    end = shared.views[r].n_visible > end ? shared.views[r].n_visible : end;
  }
  const std::int32_t first_split = begin / kSplitRanks, n_splits = (end + kSplitRanks - 1) / kSplitRanks;
  for (std::int32_t split = job.whole ? first_split : block.z; split < n_splits; ++split) {
    if (split < first_split) return;
    clear_split(block, work, shared);
    const std::int32_t stop = (split + 1) * kSplitRanks < end ? (split + 1) * kSplitRanks : end;
    for (std::int32_t first = split * kSplitRanks; first < stop; first += kBlockRanks) {
      attend_block(block, job, work, shared, first);
    }
    if (!job.whole) return write_partial(block, job, work, shared, split);
    merge_split(block, work, shared);
  }
  if (job.whole) write_whole(block, job, work, shared);
}

// Grid (row, head): merges the splits of one row and head in order.
SLIP_DEVICE void combine_splits(const Block<kWarp>& block, const Attention& job) {
  if (job.rows[block.x].pages == nullptr) return;
  const RankView view = view_of(job.rows[block.x]);
  const std::int32_t first = view.first_visible / kSplitRanks, end = (view.n_visible + kSplitRanks - 1) / kSplitRanks;
  block.each_apart([&](int thread) {
    for (std::int32_t d = thread; d < job.kv.head_dim; d += kWarp) {
      float most = 0, total = 0, sum = 0;
      for (std::int32_t split = first; split < end; ++split) {
        const float* next = job.partial_of(block.x, block.y, split);
        if (next[1] == 0) continue;
        if (total == 0) {
          most = next[0];
          total = next[1];
          sum = next[2 + d];
          continue;
        }
        const Merge merge = merge_of(most, next[0]);
        sum = sum * merge.before + next[2 + d] * merge.next;
        total = total * merge.before + next[1] * merge.next;
        most = merge.most;
      }
      put_attended(job, block.x, block.y, d, sum / total);
    }
  });
}

}  // namespace slip::kernels::cuda
