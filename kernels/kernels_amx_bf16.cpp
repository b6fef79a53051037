// SPDX-License-Identifier: Apache-2.0
// Compiled for AMX with TDPBF16PS: sixteen rows against sixteen columns and thirty-two of depth in one instruction,
// which takes packed weights as they lie, since a step of depth holds pairs of neighbours along n_in.
#include "kernels/isa_tables.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/activations_body.h"

namespace slip::kernels {
namespace {

constexpr int kTileRows = 16;
constexpr int kTileBytes = 64;                             // of one row of a tile
constexpr int kTileSteps = 16;                             // steps of depth that a tile of weights holds
constexpr std::int64_t kWeightStride = kPanelColumns * 4;  // bytes between two steps of depth
constexpr std::int64_t kPairBytes = 4;

// As LDTILECFG reads it (Intel 64 manual, volume 1, chapter 18).
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// Tiles 0 to 3 hold the sums of the panel's four times sixteen columns, 4 the activations, 5 and 6 weights in turn.
TileConfig config_for(int n_rows) {
  TileConfig config;
  for (int i = 0; i < 7; ++i) {
    config.row_bytes[i] = kTileBytes;
    config.rows[i] = static_cast<std::uint8_t>(i < 5 ? n_rows : kTileSteps);
  }
  return config;
}

void add_products(const std::byte* weight, const std::byte* x, std::int64_t x_stride) {
  _tile_loadd(4, x, x_stride);
  _tile_loadd(5, weight, kWeightStride);
  _tile_dpbf16ps(0, 4, 5);
  _tile_loadd(6, weight + kTileBytes, kWeightStride);
  _tile_dpbf16ps(1, 4, 6);
  _tile_loadd(5, weight + 2 * kTileBytes, kWeightStride);
  _tile_dpbf16ps(2, 4, 5);
  _tile_loadd(6, weight + 3 * kTileBytes, kWeightStride);
  _tile_dpbf16ps(3, 4, 6);
}

// The last steps of a depth that sixteen does not divide, filled up with zeros, whose products change nothing.
void add_last_products(const MatmulTile& tile, std::int64_t at) {
  alignas(64) std::byte weight[kTileSteps * kWeightStride] = {};
  alignas(64) std::byte x[kTileRows * kTileBytes] = {};
  const std::int64_t n_steps = tile.depth - at;
  __builtin_memcpy(weight, tile.weight + at * kWeightStride, static_cast<std::size_t>(n_steps * kWeightStride));
  for (int row = 0; row < tile.n_rows; ++row) {
    __builtin_memcpy(x + row * kTileBytes, tile.x + row * tile.x_stride_bytes + at * kPairBytes,
                     static_cast<std::size_t>(n_steps * kPairBytes));
  }
  add_products(weight, x, kTileBytes);
}

void amx_tile(const MatmulTile& tile) {
  // Set anew each time: LibTorch sets its own on the threads it shares with us.
  const TileConfig config = config_for(tile.n_rows);
  _tile_loadconfig(&config);
  constexpr std::int64_t kSumsStride = kPanelColumns * sizeof(float);
  _tile_loadd(0, tile.sums, kSumsStride);
  _tile_loadd(1, tile.sums + 16, kSumsStride);
  _tile_loadd(2, tile.sums + 32, kSumsStride);
  _tile_loadd(3, tile.sums + 48, kSumsStride);
  for (std::int64_t at = 0; at < tile.depth; at += kTileSteps) {
    for (std::int64_t byte = 0; tile.next_weight != nullptr && byte < kTileSteps * tile.next_step_bytes; byte += 64) {
      __builtin_prefetch(tile.next_weight + at * tile.next_step_bytes + byte, 0, 2);
    }
    if (at + kTileSteps <= tile.depth) {
      add_products(tile.weight + at * kWeightStride, tile.x + at * kPairBytes, tile.x_stride_bytes);
    } else {
      add_last_products(tile, at);
    }
  }
  _tile_stored(0, tile.sums, kSumsStride);
  _tile_stored(1, tile.sums + 16, kSumsStride);
  _tile_stored(2, tile.sums + 32, kSumsStride);
  _tile_stored(3, tile.sums + 48, kSumsStride);
  _tile_release();
}

}  // namespace

const KernelTable amx_bf16_kernels = {.matmul_bf16 = amx_tile,
                                      .bf16_tile_rows = kTileRows,
                                      .bf16_activations = paired_activations,
                                      .bf16_pair_bytes = kPairBytes};

}  // namespace slip::kernels
#endif
