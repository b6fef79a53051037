// SPDX-License-Identifier: Apache-2.0
// Compiled for AMX with TDPBF16PS: sixteen rows against sixteen columns and thirty-two of depth in one instruction,
// which takes packed weights as they lie, since a step of depth holds pairs of neighbours along n_in.
#include "kernels/isa_tables.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/activations_body.h"

namespace slip::kernels {
namespace {

constexpr int kRegisterRows = 16;                          // rows of a tile register
constexpr int kRegisterBytes = 64;                         // of one row of it
constexpr int kTileRows = 2 * kRegisterRows;               // rows that share a pass over the weights
constexpr int kBlockSteps = 16;                            // steps of depth that a tile register of weights holds
constexpr std::int64_t kWeightStride = kPanelColumns * 4;  // bytes between two steps of depth
constexpr std::int64_t kBlockWeights = kBlockSteps * kWeightStride;
constexpr std::int64_t kPairBytes = 4;
constexpr std::int64_t kSumsStride = kPanelColumns * sizeof(float);
constexpr std::int64_t kLineBytes = 64;

// As LDTILECFG reads it (Intel 64 manual, volume 1, chapter 18).
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int index, int n_rows) {
    row_bytes[index] = kRegisterBytes;
    rows[index] = static_cast<std::uint8_t>(n_rows);
  }
};

// One block of depth: activations [n_rows][64 bytes] and weights [kBlockSteps][kPanelColumns pairs], where they lie or
// filled up with zeros, whose products change nothing.
struct Block {
  const std::byte* x;
  const std::byte* weight;
};

struct LastBlock {
  alignas(64) std::byte weight[kBlockWeights];
};

// The block at `at`; the weights of a depth that sixteen does not divide are copied, for they end before it does.
Block block_at(const MatmulTile& tile, std::int64_t at, LastBlock& last) {
  const std::byte* x = tile.x + at * kPairBytes * tile.n_rows;
  const std::byte* weight = tile.weight + at * kWeightStride;
  if (at + kBlockSteps <= tile.depth) return {x, weight};
  const auto n = static_cast<std::size_t>((tile.depth - at) * kWeightStride);
  __builtin_memcpy(last.weight, weight, n);
  __builtin_memset(last.weight + n, 0, sizeof last.weight - n);
  return {x, last.weight};
}

// The `part`-th of `n_parts` shares of what is fetched during a block, into the second-level cache.
void fetch(const MatmulTile& tile, std::int64_t at, int part, int n_parts) {
  if (tile.next_weight == nullptr) return;
  const std::int64_t bytes = kBlockSteps * tile.next_step_bytes / n_parts;
  const std::byte* from = tile.next_weight + at * tile.next_step_bytes + part * bytes;
  for (std::int64_t byte = 0; byte < bytes; byte += kLineBytes) __builtin_prefetch(from + byte, 0, 2);
}

// Up to 16 rows against the panel's four times sixteen columns: sums in registers 0 to 3, activations in 4, weights in
// 5 and 6 in turn. Fetching and multiplying take turns too, so that neither waits for a queue of the other's.
void narrow_tile(const MatmulTile& tile) {
  TileConfig config;
  for (int i = 0; i < 5; ++i) config.set(i, tile.n_rows);
  for (int i = 5; i < 7; ++i) config.set(i, kBlockSteps);
  // Set anew each time: LibTorch sets its own on the threads it shares with us.
  _tile_loadconfig(&config);
  _tile_loadd(0, tile.sums, kSumsStride);
  _tile_loadd(1, tile.sums + 16, kSumsStride);
  _tile_loadd(2, tile.sums + 32, kSumsStride);
  _tile_loadd(3, tile.sums + 48, kSumsStride);
  LastBlock last;
  for (std::int64_t at = 0; at < tile.depth; at += kBlockSteps) {
    const Block block = block_at(tile, at, last);
    fetch(tile, at, 0, 4);
    _tile_loadd(4, block.x, kRegisterBytes);
    _tile_loadd(5, block.weight, kWeightStride);
    _tile_dpbf16ps(0, 4, 5);
    fetch(tile, at, 1, 4);
    _tile_loadd(6, block.weight + 64, kWeightStride);
    _tile_dpbf16ps(1, 4, 6);
    fetch(tile, at, 2, 4);
    _tile_loadd(5, block.weight + 128, kWeightStride);
    _tile_dpbf16ps(2, 4, 5);
    fetch(tile, at, 3, 4);
    _tile_loadd(6, block.weight + 192, kWeightStride);
    _tile_dpbf16ps(3, 4, 6);
  }
  _tile_stored(0, tile.sums, kSumsStride);
  _tile_stored(1, tile.sums + 16, kSumsStride);
  _tile_stored(2, tile.sums + 32, kSumsStride);
  _tile_stored(3, tile.sums + 48, kSumsStride);
  _tile_release();
}

// Sums of 16 rows and of up to 16 more × two times sixteen columns: four loads for four products, where one row of
// registers would need five.
void multiply_columns(const MatmulTile& tile, int half) {
  const std::byte* second_x = tile.x + kRegisterRows * kRegisterBytes;
  float* upper = tile.sums + 32 * half;
  float* lower = upper + kRegisterRows * kPanelColumns;
  _tile_loadd(0, upper, kSumsStride);
  _tile_loadd(1, upper + 16, kSumsStride);
  _tile_loadd(2, lower, kSumsStride);
  _tile_loadd(3, lower + 16, kSumsStride);
  LastBlock last;
  for (std::int64_t at = 0; at < tile.depth; at += kBlockSteps) {
    const Block block = block_at(tile, at, last);
    const std::byte* weight = block.weight + 128 * half;
    fetch(tile, at, 2 * half, 4);
    _tile_loadd(4, block.x, kRegisterBytes);
    _tile_loadd(6, weight, kWeightStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, block.x + (second_x - tile.x), kRegisterBytes);
    _tile_dpbf16ps(2, 5, 6);
    fetch(tile, at, 2 * half + 1, 4);
    _tile_loadd(7, weight + 64, kWeightStride);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, upper, kSumsStride);
  _tile_stored(1, upper + 16, kSumsStride);
  _tile_stored(2, lower, kSumsStride);
  _tile_stored(3, lower + 16, kSumsStride);
}

void wide_tile(const MatmulTile& tile) {
  TileConfig config;
  for (const int i : {0, 1, 4}) config.set(i, kRegisterRows);
  for (const int i : {2, 3, 5}) config.set(i, tile.n_rows - kRegisterRows);
  for (const int i : {6, 7}) config.set(i, kBlockSteps);
  _tile_loadconfig(&config);
  multiply_columns(tile, 0);
  multiply_columns(tile, 1);
  _tile_release();
}

void amx_tile(const MatmulTile& tile) {
  tile.n_rows <= kRegisterRows ? narrow_tile(tile) : wide_tile(tile);
}

void blocked_activations(const float* x, std::int64_t x_stride, int n_rows, std::int64_t n, void* out) {
  constexpr std::int64_t kBlockValues = 2 * kBlockSteps;
  auto* to = static_cast<std::uint16_t*>(out);
  for (std::int64_t at = 0; at < n; at += kBlockValues) {
    const std::int64_t here = n - at < kBlockValues ? n - at : kBlockValues;
    for (int row = 0; row < n_rows; ++row, to += kBlockValues) {
      to_bf16_lanes(x + row * x_stride + at, here, to);
      for (std::int64_t i = here; i < kBlockValues; ++i) to[i] = 0;
    }
  }
}

}  // namespace

const KernelTable amx_bf16_kernels = {.matmul_bf16 = amx_tile,
                                      .bf16_tile_rows = kTileRows,
                                      .bf16_stretch = 256,  // sums in registers are dear to change
                                      .bf16_activations = blocked_activations,
                                      .bf16_pair_bytes = kPairBytes,
                                      .bf16_block_steps = kBlockSteps};

}  // namespace slip::kernels
#endif
