// SPDX-License-Identifier: Apache-2.0
// The product of matmul.cuh for many rows, to the same bits. A block takes 128 outputs of up to 128 rows, and each warp
// has outputs and rows of its own, so operands are read less often than there. In matmul.cuh warp i sums the tiles of
// depth i, i + 8, …; here every warp sums these eight classes one after the other and adds their sums in the same
// order.
#pragma once

#include "kernels/cuda/matmul.cuh"

namespace slip::kernels::cuda {

inline constexpr int kWideTiles = 8, kClasses = MatmulBlock::kWarps, kDepthTilesAStage = 2;
inline constexpr int kOutputWarps = 2, kRowWarps = 4;  // the eight warps, as rows of a grid
inline constexpr int kWarpTiles = kWideTiles / kOutputWarps;
static_assert(kOutputWarps * kRowWarps == MatmulBlock::kWarps);
static_assert(kWarpTiles % 2 == 0, "a warp has gates and their ups");

struct alignas(16) OperandBPair {  // of lanes 2 i and 2 i + 1, which have the same row
  OperandB of[2];
};

// Stages of a block of 128 outputs and kRowTiles tiles of rows, and the totals of the classes so far, which would not
// fit a thread's registers. Two blocks fit a multiprocessor.
template <int kRowTiles>
struct WideShared {
  static constexpr int kStages = kRowTiles > 8 ? 3 : 6;
  OperandA weight[kStages][kDepthTilesAStage][kWideTiles][kWarp];
  OperandBPair activations[kStages][kDepthTilesAStage][kRowTiles][kWarp / 2];
  float totals[kWideTiles * kRowTiles * kTileOutputs * kTileRows / kMatmulThreads][kMatmulThreads];
};

// A warp's operands of one tile of depth, and its sums.
template <int kRowTiles>
struct WideOperands {
  OperandA weight[kWarpTiles];
  OperandB activations[kRowTiles / kRowWarps];
};
template <int kRowTiles>
using WideSums = LaneSums<kWarpTiles, kRowTiles / kRowWarps>;

// The order in which tiles of depth are summed: all rounds of class 0, then of class 1, … Tiles beyond the depth are
// zeros, as in matmul.cuh.
struct DepthOrder {
  std::int32_t depth, n_rounds, round = 0, of_class = 0;

  SLIP_DEVICE explicit DepthOrder(std::int64_t depth_tiles) : depth(static_cast<std::int32_t>(depth_tiles)) {
    constexpr std::int32_t kClassStages = kClasses * kDepthTilesAStage;
    n_rounds = (depth + kClassStages - 1) / kClassStages * kDepthTilesAStage;
  }
  SLIP_DEVICE std::int64_t tile() const { return std::int64_t{round} * kClasses + of_class; }
  SLIP_DEVICE bool is_there() const { return of_class < kClasses && tile() < depth; }
  SLIP_DEVICE void advance() {
    const bool ends_class = round + 1 == n_rounds;
    of_class = ends_class ? of_class + 1 : of_class;
    round = ends_class ? 0 : round + 1;
  }
};

// A thread's share of the fetches of each tile of depth: a lane's part of a tile of outputs, and two lanes' part of a
// tile of rows. Missing outputs and rows are zeros.
struct WideFetch {
  const std::uint16_t *weight, *activations;
  bool output_there, row_there;
};
SLIP_DEVICE WideFetch fetch_of(const Matmul& job, const MatmulPlace& place, int thread) {
  const int lane = thread % kWarp, pair = thread % (kWarp / 2);
  const std::int64_t tile = place.first_tile + thread / kWarp;
  const std::int64_t row = place.first_row + thread / (kWarp / 2) * kTileRows + pair / 2;
  const bool output_there = tile < output_tiles(job.n_out), row_there = row < job.n_rows;
  const std::int64_t output_at = output_there ? (tile * place.depth * kWarp + lane) * kWeightsALane : 0;
  const std::int64_t row_at = row_there ? (row / kTileRows * place.depth * kWarp + 2 * pair) * kActivationsALane : 0;
  return {place.weight + output_at, job.activations + row_at, output_there, row_there};
}

// Fetches a thread's parts of the next tiles of depth.
template <int kRowTiles>
SLIP_DEVICE void fetch_wide(const WideFetch& from, DepthOrder next, int slot, int thread,
                            WideShared<kRowTiles>& shared) {
  static_assert(kWideTiles * kWarp == kMatmulThreads && kRowTiles * kWarp / 2 <= kMatmulThreads);
  SLIP_UNROLL
  for (int deep = 0; deep < kDepthTilesAStage; ++deep, next.advance()) {
    const bool there = next.is_there();
    const std::int64_t at = there ? next.tile() * kWarp : 0;
    fetch(&shared.weight[slot][deep][thread / kWarp][thread % kWarp], from.weight + at * kWeightsALane,
          there && from.output_there);
    if (thread < kRowTiles * kWarp / 2) {
      fetch(&shared.activations[slot][deep][thread / (kWarp / 2)][thread % (kWarp / 2)],
            from.activations + at * kActivationsALane, there && from.row_there);
    }
  }
}

// Every warp multiplies its part of a tile of depth that arrived.
template <int kRowTiles>
SLIP_DEVICE void multiply_wide(const MatmulBlock& block, int slot, int deep, const WideShared<kRowTiles>& shared,
                               MatmulBlock::Per<WideSums<kRowTiles>>& sums) {
  constexpr int kWarpRowTiles = kRowTiles / kRowWarps;
  MatmulBlock::Per<WideOperands<kRowTiles>> operands;
  block.each_apart([&](int thread) {
    const int lane = thread % kWarp, warp = thread / kWarp;
    SLIP_UNROLL
    for (int t = 0; t < kWarpTiles; ++t) {
      operands[thread].weight[t] = shared.weight[slot][deep][warp / kRowWarps * kWarpTiles + t][lane];
    }
    SLIP_UNROLL
    for (int r = 0; r < kWarpRowTiles; ++r) {
      const int row_tile = warp % kRowWarps * kWarpRowTiles + r;
      operands[thread].activations[r] = shared.activations[slot][deep][row_tile][lane / 2].of[lane % 2];
    }
  });
  SLIP_UNROLL
  for (int t = 0; t < kWarpTiles; ++t) {
    SLIP_UNROLL
    for (int r = 0; r < kWarpRowTiles; ++r) {
      multiply_in_warps(
          block, [&](int thread) { return operands[thread].weight[t]; },
          [&](int thread) { return operands[thread].activations[r]; },
          [&](int thread) -> SumPart& { return sums[thread].of[t][r]; });
    }
  }
}

// Adds a class's sums to a thread's totals. After the last class `sums` are the totals.
template <int kRowTiles>
SLIP_DEVICE void add_class(int of_class, int thread, WideSums<kRowTiles>& sums, WideShared<kRowTiles>& shared) {
  int at = 0;
  SLIP_UNROLL
  for (int t = 0; t < kWarpTiles; ++t) {
    SLIP_UNROLL
    for (int r = 0; r < kRowTiles / kRowWarps; ++r) {
      SLIP_UNROLL
      for (int i = 0; i < 4; ++i, ++at) {
        float& sum = sums.of[t][r].of[i];
        float& total = shared.totals[at][thread];
        if (of_class > 0) sum = total + sum;
        total = sum;
      }
    }
  }
}

template <int kRowTiles>
SLIP_DEVICE void finish_wide(const Matmul& job, const MatmulPlace& place, int thread,
                             const WideSums<kRowTiles>& totals) {
  constexpr int kWarpRowTiles = kRowTiles / kRowWarps;
  const int lane = thread % kWarp, warp = thread / kWarp;
  const std::int64_t first_tile = place.first_tile + warp / kRowWarps * kWarpTiles;
  const std::int64_t first_row = place.first_row + warp % kRowWarps * kWarpRowTiles * kTileRows;
  SLIP_UNROLL
  for (int t = 0; t < kWarpTiles; ++t) {
    if (job.epilogue == Epilogue::kGateUp && t % 2 == 1) continue;
    SLIP_UNROLL
    for (int r = 0; r < kWarpRowTiles; ++r) {
      SLIP_UNROLL
      for (int i = 0; i < 4; ++i) {
        finish(job, place.bias, first_row + r * kTileRows + row_of_element(lane, i), first_tile + t,
               output_of_element(lane, i), totals.of[t][r].of[i], totals.of[t ^ 1][r].of[i]);
      }
    }
  }
}

// Grid (x, y): outputs from 128 x on, rows from 8 · kRowTiles · y on. REQUIRES: all rows are of one model.
template <int kRowTiles>
SLIP_DEVICE void matmul_wide(const MatmulBlock& block, const Matmul& job, WideShared<kRowTiles>& shared) {
  wait_for_previous();
  const std::int64_t first_row = static_cast<std::int64_t>(block.y) * kTileRows * kRowTiles;
  if (job.row_weights.skips(first_row)) return;
  const MatmulPlace place{job.row_weights.find(job.weight, first_row), job.row_weights.find(job.bias, first_row),
                          static_cast<std::int64_t>(block.x) * kWideTiles, first_row, depth_tiles(job.n_in)};
  MatmulBlock::Per<WideFetch> from;
  block.each_apart([&](int thread) { from[thread] = fetch_of(job, place, thread); });
  constexpr int kStages = WideShared<kRowTiles>::kStages, kInFlight = kStages - 1;
  DepthOrder fetched(place.depth);
  int into = 0, out_of = 0;  // stages
  const auto fetch_stage = [&] {
    block.each_apart([&](int thread) { fetch_wide(from[thread], fetched, into, thread, shared); });
    end_of_stage();
    for (int deep = 0; deep < kDepthTilesAStage; ++deep) fetched.advance();
    into = into + 1 == kStages ? 0 : into + 1;
  };
  for (int stage = 0; stage < kInFlight; ++stage) fetch_stage();
  MatmulBlock::Per<WideSums<kRowTiles>> sums;
  for (int of_class = 0; of_class < kClasses; ++of_class) {
    block.each_apart([&](int thread) { sums[thread] = WideSums<kRowTiles>{}; });
    for (std::int32_t round = 0; round < fetched.n_rounds; round += kDepthTilesAStage) {
      wait_for_stages<kInFlight - 1>();
      block.each([](int) {});  // the stage has arrived for all threads, and all are done with the one before
      fetch_stage();
      SLIP_UNROLL
      for (int deep = 0; deep < kDepthTilesAStage; ++deep) multiply_wide(block, out_of, deep, shared, sums);
      out_of = out_of + 1 == kStages ? 0 : out_of + 1;
    }
    block.each_apart([&](int thread) { add_class<kRowTiles>(of_class, thread, sums[thread], shared); });
  }
  wait_for_stages<0>();
  let_next_start();
  block.each_apart([&](int thread) { finish_wide<kRowTiles>(job, place, thread, sums[thread]); });
}

}  // namespace slip::kernels::cuda
