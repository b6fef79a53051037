// SPDX-License-Identifier: Apache-2.0
// The matmul tiles in 16-lane arithmetic, included by each instruction class's source file.
#pragma once

#include <utility>

#include "kernels/kernel_table.h"
#include "kernels/lanes.h"

namespace slip::kernels {
namespace {

// 6 rows × 4 blocks leave 8 of AVX-512's 32 registers for weights and activations; 6 rows × 1 block leave 4 of AVX2's
// 16 half-size registers.
constexpr int kTileRows = 6;
// 10 rows × 2 blocks fit too. One such tile reads the weights once, where two of five rows read them twice, and
// overlaps reads and arithmetic better: on a Zen 5, 8 rows took 0.88 to 0.95 times as long, 14 rows 0.87.
[[maybe_unused]] constexpr int kLongTileRows = 10;
// The number of column blocks in flight for `rows` rows. Their sums fill the register file without spilling, so that
// the arithmetic is fast.
constexpr int blocks_in_flight(int rows) {
  if (kParts == 1) return rows <= kTileRows ? 4 : 2;
  if (rows == 1) return 4;
  return rows == 2 ? 2 : 1;
}
[[maybe_unused]] constexpr std::int64_t kStretch = 64;  // 16 KiB of weights, which stay in the first-level cache

// Prefetches the next weights evenly over a tile's passes, to keep the memory busy. Reads in address order, nearly
// twice as fast as every fourth line (on a Zen 3). Prefetches into the second-level cache, since the first holds the
// data in use.
template <int kPasses>
class Fetching {
 public:
  Fetching(const MatmulTile& tile, int pass) {
    if (tile.next_weight == nullptr) return;
    step_bytes_ = tile.next_step_bytes / kPasses;
    at_ = tile.next_weight + pass * tile.depth * step_bytes_;
  }
  SLIP_LANES void step() {
    if (step_bytes_ > 0) __builtin_prefetch(at_, 0, 2);
#pragma GCC unroll 4
    for (std::int64_t byte = kLineBytes; byte < kStepBytes / kPasses; byte += kLineBytes) {
      if (byte < step_bytes_) __builtin_prefetch(at_ + byte, 0, 2);
    }
    at_ += step_bytes_;
  }

 private:
  static constexpr std::int64_t kLineBytes = 64;
  const std::byte* at_ = nullptr;
  std::int64_t step_bytes_ = 0;  // per depth step
};

template <int kRows, int kBlocks>
SLIP_LANES void load_sums(const MatmulTile& tile, int column, Lanes (&sums)[kRows][kBlocks]) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) {
      sums[r][b] = tile.is_first ? broadcast(0) : load(tile.sums + r * kPanelColumns + column + b * kLanes);
    }
  }
}
template <int kRows, int kBlocks>
SLIP_LANES void store_sums(const MatmulTile& tile, int column, const Lanes (&sums)[kRows][kBlocks]) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) store(tile.sums + r * kPanelColumns + column + b * kLanes, sums[r][b]);
  }
}

struct Float32Step {
  static constexpr int kStepBytes = 4;
  template <int kRows, int kBlocks>
  SLIP_LANES static void add(const std::byte* weight, const std::byte* x, std::int64_t x_stride,
                             Lanes (&sums)[kRows][kBlocks]) {
    Lanes w[kBlocks];
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) w[b] = load(reinterpret_cast<const float*>(weight + b * kWeightGroupBytes));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Lanes value = broadcast(load_unaligned<float>(x + r * x_stride));
#pragma GCC unroll 8
      for (int b = 0; b < kBlocks; ++b) sums[r][b] = fused(value, w[b], sums[r][b]);
    }
  }
};

// bfloat16 without a dot-product instruction. Both values of a pair are widened to float32, where their products are
// exact, and added one after the other. Only one of them is in registers at a time.
struct WidenedPairStep {
  static constexpr int kStepBytes = 8;
  template <int kRows, int kBlocks>
  SLIP_LANES static void add_half(const Lanes& half, const std::byte* x, std::int64_t x_stride, int b,
                                  Lanes (&sums)[kRows][kBlocks]) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sums[r][b] = fused_in_place(broadcast(load_unaligned<float>(x + r * x_stride)), half, sums[r][b]);
    }
  }
  template <int kRows, int kBlocks>
  SLIP_LANES static void add(const std::byte* weight, const std::byte* x, std::int64_t x_stride,
                             Lanes (&sums)[kRows][kBlocks]) {
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) {
      const auto* pairs = reinterpret_cast<const float*>(weight + b * kWeightGroupBytes);
      add_half<kRows, kBlocks>(first_of_pairs(load_once(pairs)), x, x_stride, b, sums);
      if constexpr (kParts > 1) asm("" : "+r"(pairs));  // registers are scarce: makes GCC load the pairs again
      add_half<kRows, kBlocks>(second_of_pairs(load_once(pairs)), x + 4, x_stride, b, sums);
    }
  }
};

template <class Step, int kRows, int kBlocks>
void tile_of(const MatmulTile& tile) {
  for (int column = 0; column < kPanelColumns; column += kBlocks * kLanes) {
    Fetching<kPanelColumns / (kBlocks * kLanes)> fetching(tile, column / (kBlocks * kLanes));
    Lanes sums[kRows][kBlocks];
    load_sums(tile, column, sums);
    const std::byte* block = tile.weight + column / kGroupColumns * kWeightGroupBytes;
    const std::byte* x = tile.x;
    for (std::int64_t first = 0; first < tile.depth; first += kBlockSteps, block += kWeightBlockBytes) {
      const std::int64_t end = first + kBlockSteps < tile.depth ? first + kBlockSteps : tile.depth;
      const std::byte* weight = block;
      for (std::int64_t step = first; step < end; ++step) {
        fetching.step();
        Step::add(weight, x, tile.x_stride_bytes, sums);
        weight += kGroupColumns * 4;
        x += Step::kStepBytes;
      }
    }
    store_sums(tile, column, sums);
  }
}

// A tile that waits for memory keeps one block in flight. Its arithmetic is slower, but it reads faster, since the next
// stretch is fetched over four passes instead of one: on a Zen 4, one row took 0.66 times as long, four rows 0.75. From
// nine rows on, arithmetic takes longer than reading.
template <class Step, int kRows>
void tile_of_rows(const MatmulTile& tile) {
  if constexpr (kParts == 1 && kRows <= 8) {
    if (tile.is_alone && tile.from_memory) return tile_of<Step, kRows, 1>(tile);
  }
  tile_of<Step, kRows, blocks_in_flight(kRows)>(tile);
}

template <class Step, int... kIndices>
void matmul_tile(const MatmulTile& tile, std::integer_sequence<int, kIndices...>) {
  static constexpr void (*kTiles[])(const MatmulTile&) = {tile_of_rows<Step, kIndices + 1>...};
  kTiles[tile.n_rows - 1](tile);
}

// REQUIRES: 1 ≤ tile.n_rows ≤ kMostRows.
template <class Step, int kMostRows = kTileRows>
void matmul_tile(const MatmulTile& tile) {
  matmul_tile<Step>(tile, std::make_integer_sequence<int, kMostRows>());
}

}  // namespace
}  // namespace slip::kernels
