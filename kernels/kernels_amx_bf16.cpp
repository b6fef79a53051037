// SPDX-License-Identifier: Apache-2.0
// Compiled for AMX with TDPBF16PS: sixteen rows against sixteen columns and thirty-two of depth in one instruction,
// which takes packed weights as they lie, since a step of depth holds pairs of neighbours along n_in.
#include "kernels/isa_tables.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/activations.h"
#include "kernels/activations_body.h"
#include "kernels/attention_amx_body.h"
#include "kernels/tile_config.h"

namespace slip::kernels {
namespace {

constexpr int kTileRows = 2 * kRegisterRows;  // rows that share a pass over the weights
constexpr int kBlockSteps = kRegisterRows;    // steps of depth that a tile register of weights holds
static_assert(2 * kBlockSteps == Activations::kBlockValues);
constexpr std::int64_t kWeightStride = kPanelColumns * 4;  // bytes between two steps of depth
constexpr std::int64_t kBlockWeights = kBlockSteps * kWeightStride;
constexpr std::int64_t kPairBytes = 4;
constexpr std::int64_t kSumsStride = kPanelColumns * sizeof(float);

// One block of depth: activations [n_rows][64 bytes] and weights [kBlockSteps][kPanelColumns pairs].
struct Block {
  const std::byte* x;
  const std::byte* weight;
};

// The weights of a depth that sixteen does not divide end before their block does: they are filled up with zeros, whose
// products change nothing.
struct LastBlock {
  LastBlock(const MatmulTile& tile, std::int64_t at) : block{tile.x + at * kPairBytes * tile.n_rows, weight} {
    const auto n = static_cast<std::size_t>((tile.depth - at) * kWeightStride);
    __builtin_memcpy(weight, tile.weight + at * kWeightStride, n);
    __builtin_memset(weight + n, 0, sizeof weight - n);
  }
  alignas(64) std::byte weight[kBlockWeights];
  Block block;
};

// Weights fetched into the second-level cache during a block, a quarter at a time: fetching and multiplying take turns,
// so that neither waits for a queue of the other's.
class Fetching {
 public:
  explicit Fetching(const MatmulTile& tile) : next_(tile.next_weight), bytes_(kBlockSteps * tile.next_step_bytes / 4) {}
  void skip_quarters(int n) { next_ += next_ == nullptr ? 0 : n * bytes_; }
  SLIP_LANES void quarter() {
    if (next_ == nullptr) return;
    for (std::int64_t byte = 0; byte < bytes_; byte += kLineBytes) __builtin_prefetch(next_ + byte, 0, 2);
    next_ += bytes_;
  }

 private:
  const std::byte* next_;
  std::int64_t bytes_;
};

// A quarter of the next block, from the second-level cache into the first: a load of a register asks for sixteen lines
// at once and waits for the slowest.
SLIP_LANES void bring_quarter_near(const Block& block, int quarter) {
  const std::byte* next = block.weight + kBlockWeights + quarter * (kBlockWeights / 4);
#pragma GCC unroll 16
  for (std::int64_t byte = 0; byte < kBlockWeights / 4; byte += kLineBytes) __builtin_prefetch(next + byte, 0, 3);
}

SLIP_LANES void multiply_narrow(const Block& block, Fetching& fetching) {
  fetching.quarter();
  bring_quarter_near(block, 0);
  _tile_loadd(4, block.x, kRegisterBytes);
  _tile_loadd(5, block.weight, kWeightStride);
  _tile_dpbf16ps(0, 4, 5);
  fetching.quarter();
  bring_quarter_near(block, 1);
  _tile_loadd(6, block.weight + 64, kWeightStride);
  _tile_dpbf16ps(1, 4, 6);
  fetching.quarter();
  bring_quarter_near(block, 2);
  _tile_loadd(5, block.weight + 128, kWeightStride);
  _tile_dpbf16ps(2, 4, 5);
  fetching.quarter();
  bring_quarter_near(block, 3);
  _tile_loadd(6, block.weight + 192, kWeightStride);
  _tile_dpbf16ps(3, 4, 6);
}

// Up to 16 rows against the panel's four times sixteen columns, weights in registers 5 and 6 in turn.
void narrow_tile(const MatmulTile& tile) {
  _tile_loadd(0, tile.sums, kSumsStride);
  _tile_loadd(1, tile.sums + 16, kSumsStride);
  _tile_loadd(2, tile.sums + 32, kSumsStride);
  _tile_loadd(3, tile.sums + 48, kSumsStride);
  Fetching fetching(tile);
  std::int64_t at = 0;
  for (; at + kBlockSteps <= tile.depth; at += kBlockSteps) {
    multiply_narrow({tile.x + at * kPairBytes * tile.n_rows, tile.weight + at * kWeightStride}, fetching);
  }
  if (at < tile.depth) multiply_narrow(LastBlock(tile, at).block, fetching);
  _tile_stored(0, tile.sums, kSumsStride);
  _tile_stored(1, tile.sums + 16, kSumsStride);
  _tile_stored(2, tile.sums + 32, kSumsStride);
  _tile_stored(3, tile.sums + 48, kSumsStride);
}

// A quarter of the weights two blocks ahead, from the second-level cache into the first. Rows are left to the
// processor, which guesses right: their lines follow each other.
SLIP_LANES void bring_near(const Block& block, int quarter) {
  const std::byte* next = block.weight + 2 * kBlockWeights + quarter * (kBlockWeights / 4);
#pragma GCC unroll 4
  for (std::int64_t at = 0; at < kBlockWeights / 4; at += kWeightStride) {
    __builtin_prefetch(next + at, 0, 3);
    __builtin_prefetch(next + at + kLineBytes, 0, 3);
  }
}

SLIP_LANES void multiply_wide(const Block& block, Fetching& fetching) {
  fetching.quarter();
  bring_near(block, 0);
  _tile_loadd(4, block.x, kRegisterBytes);
  _tile_loadd(6, block.weight, kWeightStride);
  _tile_dpbf16ps(0, 4, 6);
  bring_near(block, 1);
  _tile_loadd(5, block.x + kRegisterRows * kRegisterBytes, kRegisterBytes);
  _tile_dpbf16ps(2, 5, 6);
  fetching.quarter();
  bring_near(block, 2);
  _tile_loadd(7, block.weight + 64, kWeightStride);
  _tile_dpbf16ps(1, 4, 7);
  bring_near(block, 3);
  _tile_dpbf16ps(3, 5, 7);
}

// Sums of 16 rows and of up to 16 more × two times sixteen columns: four loads for four products, where one row of
// registers would need five.
void multiply_columns(const MatmulTile& tile, int half) {
  float* upper = tile.sums + 32 * half;
  float* lower = upper + kRegisterRows * kPanelColumns;
  _tile_loadd(0, upper, kSumsStride);
  _tile_loadd(1, upper + 16, kSumsStride);
  _tile_loadd(2, lower, kSumsStride);
  _tile_loadd(3, lower + 16, kSumsStride);
  const std::int64_t block_bytes = std::int64_t{tile.n_rows} * kRegisterBytes, offset = 128 * half;
  Fetching fetching(tile);
  fetching.skip_quarters(half * static_cast<int>(tile.depth / kBlockSteps) * 2);
  Block block{tile.x, tile.weight + offset};
  std::int64_t at = 0;
  for (; at + kBlockSteps <= tile.depth; at += kBlockSteps) {
    multiply_wide(block, fetching);
    block = {block.x + block_bytes, block.weight + kBlockWeights};
  }
  if (at < tile.depth) {
    const LastBlock last(tile, at);
    multiply_wide({last.block.x, last.block.weight + offset}, fetching);
  }
  _tile_stored(0, upper, kSumsStride);
  _tile_stored(1, upper + 16, kSumsStride);
  _tile_stored(2, lower, kSumsStride);
  _tile_stored(3, lower + 16, kSumsStride);
}

void amx_tile(const MatmulTile& tile) {
  configure(tile.n_rows);
  if (tile.n_rows <= kRegisterRows) return narrow_tile(tile);
  multiply_columns(tile, 0);
  multiply_columns(tile, 1);
}

// In blocks, as the tile registers take them.
void blocked_rows(const Bf16Rows& rows) {
  constexpr std::int64_t kBlock = Activations::kBlockValues;
  for (std::int64_t row = 0; row < rows.n_rows; ++row) {
    std::byte* to = rows.out + row * rows.row_stride_bytes;
    for (std::int64_t at = 0; at < rows.n; at += kBlock, to += rows.block_stride_bytes) {
      const std::int64_t here = rows.n - at < kBlock ? rows.n - at : kBlock;
      auto* values = reinterpret_cast<std::uint16_t*>(to);
      to_bf16_lanes(rows.x + row * rows.x_stride + at, here, values);
      for (std::int64_t i = here; i < kBlock; ++i) values[i] = 0;
    }
  }
}

void attention(const AttentionTile& tile) {
  if (tile.dtype != Dtype::kBFloat16) return avx512_kernels.attention(tile);
  amx_attention_tile(tile);
}

}  // namespace

const KernelTable amx_bf16_kernels = {.matmul_bf16 = amx_tile,
                                      .end_bf16_tiles = end_tiles,
                                      .bf16_tile_rows = kTileRows,
                                      .bf16_stretch = 512,
                                      .bf16_task_rows = kMostTaskRows,
                                      .bf16_rows = blocked_rows,
                                      .bf16_pair_bytes = kPairBytes,
                                      .bf16_in_blocks = true,
                                      .attention = attention,
                                      .attention_rounds = true};

}  // namespace slip::kernels
#endif
