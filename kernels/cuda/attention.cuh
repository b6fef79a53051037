// SPDX-License-Identifier: Apache-2.0
// Paged attention for many query rows a sequence, with the meaning of kernels/attention.h.
//
// A block takes a tile: some rows of one sequence and some query heads of one key head, and stages keys and values once
// for all of them. Visible ranks are cut into splits of 256, and these into blocks of 32, both counted from rank 0.
// Softmax runs online over the blocks of a split (Milakov and Gimelshein, 2018), and the splits are merged in order.
// Whether one block runs through all splits or each is a block of its own and combine_splits() merges them, the
// operations on a row's numbers are the same ones in the same order, and none depends on who shares the tile.
#pragma once

#include "kernels/cuda/rows.cuh"

namespace slip::kernels::cuda {

inline constexpr int kAttentionThreads = 128;
inline constexpr int kBlockRanks = 32;  // a lane a rank
inline constexpr int kSplitRanks = 256;
inline constexpr int kMostTileRows = 16, kMostTileQueries = 64;
using AttentionBlock = Block<kAttentionThreads>;
static_assert(kBlockRanks == kWarp);

// Rows [first_row, first_row + n_rows) of one sequence, with the same visible ranges; n_rows 0: nothing to do.
struct AttentionTileRows {
  std::int32_t first_row = 0, n_rows = 0;
};

struct Attention {
  const float* q = nullptr;  // [n_rows, n_heads * head_dim]
  std::int64_t q_stride = 0;
  DeviceKv kv;
  const DeviceRow* rows = nullptr;
  const AttentionTileRows* tiles = nullptr;
  std::int32_t n_heads = 0;
  std::int32_t heads_a_tile = 0;  // of those that share a key head
  float scale = 0;
  bool whole = true;          // a block runs through all splits and writes the result
  std::int32_t n_splits = 0;  // as many as the longest row may have
  float* partial = nullptr;   // unless whole: [n_rows, n_heads, n_splits, head_dim + 2]
  float* out = nullptr;       // [n_rows, n_heads * head_dim]; null: not wanted
  std::int64_t out_stride = 0;
  std::uint16_t* activations = nullptr;  // the same for the output product; null: not wanted

  SLIP_DEVICE std::int32_t group() const { return n_heads / kv.n_kv_heads; }
  SLIP_DEVICE std::int32_t stretches() const { return (group() + heads_a_tile - 1) / heads_a_tile; }
  SLIP_DEVICE std::int64_t width() const { return std::int64_t{n_heads} * kv.head_dim; }
  SLIP_DEVICE float* partial_of(std::int64_t row, std::int32_t head, std::int32_t split) const {
    return partial + ((row * n_heads + head) * n_splits + split) * (kv.head_dim + 2);
  }
};

struct Ranks {
  std::int32_t begin, end;
};

// What a row sees by rank: ranks below n_listed are those of its committed slots that it may see, those up to n_plain
// the slots after them in order, as a chain has it; later ones follow the set bits.
struct RankView {
  std::int32_t n_committed, n_listed, n_plain, first_visible, n_visible;
};

// How many of the row's committed slots before `slot` it may see.
SLIP_DEVICE std::int32_t listed_before(const DeviceRow& row, std::int32_t slot) {
  if (row.n_ranges == 0) return slot;
  std::int32_t n = 0;
  for (std::int32_t i = 0; i < row.n_ranges; ++i) {
    const DeviceRange range = row.visible[i];
    const std::int32_t end = range.end < slot ? range.end : slot;
    n += end > range.begin ? end - range.begin : 0;
  }
  return n;
}

SLIP_DEVICE RankView view_of(const DeviceRow& row) {
  RankView view{row.n_committed, listed_before(row, row.n_committed), 0, 0, 0};
  std::int32_t n_leading = row.own_index + 1, n_of_step = row.own_index + 1;
  if (row.n_words > 0) {
    bool leading = true;
    n_leading = n_of_step = 0;
    for (std::int32_t i = 0; i < row.n_words; ++i) {
      const std::uint64_t word = row.ancestors[i];
      n_of_step += count_bits(word);
      if (leading) n_leading += count_bits(word & ~(word + 1));  // the ones below the lowest zero
      leading = leading && ~word == 0;
    }
  }
  view.n_plain = view.n_listed + n_leading;
  view.n_visible = view.n_listed + n_of_step;
  const std::int32_t n_positions = row.n_committed + n_of_step;
  if (row.window > 0 && n_positions > row.window) {
    const std::int32_t oldest = n_positions - row.window;  // position in the window
    view.first_visible =
        oldest < row.n_committed ? listed_before(row, oldest) : view.n_listed + oldest - row.n_committed;
  }
  return view;
}

SLIP_DEVICE std::int32_t slot_of_rank(const DeviceRow& row, const RankView& view, std::int32_t rank) {
  if (rank < view.n_listed) {
    if (row.n_ranges == 0) return rank;
    std::int32_t range = 0;
    for (; rank >= row.visible[range].end - row.visible[range].begin; ++range) {
      rank -= row.visible[range].end - row.visible[range].begin;
    }
    return row.visible[range].begin + rank;
  }
  std::int32_t left = rank - view.n_listed;  // so many set bits come first
  if (rank < view.n_plain) return row.n_committed + left;
  std::int32_t word = 0;
  while (count_bits(row.ancestors[word]) <= left) left -= count_bits(row.ancestors[word++]);
  std::uint64_t bits = row.ancestors[word];
  for (; left > 0; --left) bits &= bits - 1;
  const std::uint64_t lowest = bits & (~bits + 1);
  return row.n_committed + word * 64 + count_bits(lowest - 1);
}

struct alignas(16) Four {
  float of[4];
};

// Shared memory of one tile, laid out for `n_queries` of `dims` (a multiple of four) each.
struct AttentionShared {
  float* keys;     // [32][dims + 4]: a stride at which a quarter of a warp reads 16 bytes each from all banks
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

// One block's tile: its rows, its heads [first_head, first_head + n_heads) of the model, and its place in memory.
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

// The ranks of the 32 from `first` on that a row sees; begin ≥ end: none.
SLIP_DEVICE Ranks ranks_in_block(const RankView& view, std::int32_t first) {
  const std::int32_t begin = view.first_visible - first, end = view.n_visible - first;
  return {begin > 0 ? begin : 0, end < kBlockRanks ? end : kBlockRanks};
}
SLIP_DEVICE bool sees(const RankView& view, std::int32_t first) {
  const Ranks ranks = ranks_in_block(view, first);
  return ranks.begin < ranks.end;
}
SLIP_DEVICE bool is_plain(const RankView& view, std::int32_t first) {
  return first + ranks_in_block(view, first).end <= view.n_plain;
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

// Eight bfloat16 at a time where rows of the cache allow it.
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

// Keys and values of the first n ranks of the block, as row `row` of the sequence sees them.
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

// Scores of up to kAtOnce queries of each warp against the staged keys, a lane a rank, summed over the dimensions in
// order; then softmax weights relative to the greatest so far. Queries first + i · warps, below `end`.
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

// The warps' queries [query, query + warps), one each: scores become weights, earlier sums shrink as the greatest
// grows.
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

// sums = sums · shrink + Σ weight · value, over the ranks in order; a lane takes four dimensions.
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

// Queries [begin, end) take in the staged block, kAtOnce a warp. A row that sees nothing of the block, or sees it
// with gaps while others do not, lies outside the ranges this is called with.
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
  block.each([](int) {});  // the staged block may go
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

// The 32 ranks from `first` on: once for all rows that see them without gaps, then for each of the others.
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
    for (std::int32_t r = 0; r < work.rows.n_rows;) {  // runs of rows that see it so
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

// How the sums of the splits so far and those of the next come together; a split without any rank has total 0 and is
// passed over, before and after.
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
  if (job.activations != nullptr) job.activations[activation_at(row, at, job.width())] = round_to_bf16(value);
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

// Block (x, y, z): tile x; key head and stretch of its heads y; unless `whole`, split z.
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

// Block (row, head): merges the splits of one row and head in order.
SLIP_DEVICE void combine_splits(const Block<kWarp>& block, const Attention& job) {
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
