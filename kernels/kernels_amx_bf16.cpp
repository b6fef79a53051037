// SPDX-License-Identifier: Apache-2.0
// The kernels for AMX with TDPBF16PS, which multiplies 16 rows with 16 columns and 32 of depth in one instruction. It
// reads packed weights directly, since a depth step holds pairs of neighbours along n_in.
#include "kernels/isa_tables.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/activations.h"
#include "kernels/activations_body.h"
#include "kernels/attention_amx_body.h"
#include "kernels/tile_config.h"

namespace slip::kernels {
namespace {

constexpr int kTileRows = 2 * kRegisterRows;  // rows that share one pass over the weights
static_assert(kBlockSteps == kRegisterRows && kGroupColumns == kLanes);
static_assert(2 * kBlockSteps == Activations::kBlockValues);
constexpr std::int64_t kPairBytes = 4;
constexpr std::int64_t kSumsStride = kPanelColumns * sizeof(float);

// One block of depth: activations [n_rows][64 bytes] and weights.
struct Block {
  const std::byte* x;
  const std::byte* weight;
};

// How far ahead of its use a group comes into the first-level cache. So near, the tile's loads follow the stream that
// the hardware prefetcher reads. Requests farther ahead, or for the second-level cache, stay open until the memory
// answers and hold up the loads: one to eight rows took 1.08 times as long (a Xeon with 480 MiB of third-level cache).
constexpr std::int64_t kGroupsAhead = 1;

// Prefetches weights into the second-level cache during a block, a quarter at a time. Alternating with the products
// keeps either from filling the other's queue.
class Fetching {
 public:
  explicit Fetching(const MatmulTile& tile) : next_(tile.next_weight), bytes_(kBlockSteps * tile.next_step_bytes / 4) {}
  void skip_quarters(int n) { next_ += next_ == nullptr ? 0 : n * bytes_; }
  SLIP_LANES void quarter() {
    if (next_ == nullptr) return;
    for (std::int64_t byte = 0; byte < bytes_; byte += kLineBytes) __builtin_prefetch(next_ + byte, 0, 2);
    next_ += bytes_;
  }
  // Also brings a group into the first-level cache: a tile load requests sixteen lines at once and waits for the
  // slowest. A tile that shares its weights finds the group in the second-level cache.
  SLIP_LANES void quarter_beside(const Block& block, int group) {
    const std::byte* near = block.weight + kGroupsAhead * kWeightGroupBytes + group * kWeightGroupBytes;
#pragma GCC unroll 16
    for (std::int64_t byte = 0; byte < kWeightGroupBytes; byte += kLineBytes) __builtin_prefetch(near + byte, 0, 3);
    quarter();
  }

 private:
  const std::byte* next_;
  std::int64_t bytes_;
};

SLIP_LANES void multiply_narrow(const Block& block, Fetching& fetching) {
  fetching.quarter_beside(block, 0);
  _tile_loadd(4, block.x, kRegisterBytes);
  _tile_loadd(5, block.weight, kRegisterBytes);
  _tile_dpbf16ps(0, 4, 5);
  fetching.quarter_beside(block, 1);
  _tile_loadd(6, block.weight + kWeightGroupBytes, kRegisterBytes);
  _tile_dpbf16ps(1, 4, 6);
  fetching.quarter_beside(block, 2);
  _tile_loadd(5, block.weight + 2 * kWeightGroupBytes, kRegisterBytes);
  _tile_dpbf16ps(2, 4, 5);
  fetching.quarter_beside(block, 3);
  _tile_loadd(6, block.weight + 3 * kWeightGroupBytes, kRegisterBytes);
  _tile_dpbf16ps(3, 4, 6);
}

// Loads the sums into registers 0 to 3.
SLIP_LANES void load_sums(const MatmulTile& tile, const float* const (&from)[4]) {
  if (tile.is_first) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    return;
  }
  _tile_loadd(0, from[0], kSumsStride);
  _tile_loadd(1, from[1], kSumsStride);
  _tile_loadd(2, from[2], kSumsStride);
  _tile_loadd(3, from[3], kSumsStride);
}

// Up to 16 rows against the panel's four groups of 16 columns; weights alternate between registers 5 and 6.
void narrow_tile(const MatmulTile& tile) {
  load_sums(tile, {tile.sums, tile.sums + 16, tile.sums + 32, tile.sums + 48});
  Fetching fetching(tile);
  for (std::int64_t at = 0; at < tile.depth; at += kBlockSteps) {
    multiply_narrow({tile.x + at * kPairBytes * tile.n_rows, tile.weight + at * kStepBytes}, fetching);
  }
  _tile_stored(0, tile.sums, kSumsStride);
  _tile_stored(1, tile.sums + 16, kSumsStride);
  _tile_stored(2, tile.sums + 32, kSumsStride);
  _tile_stored(3, tile.sums + 48, kSumsStride);
}

// The rows stay in the first-level cache for the other columns. Weights are used once per row tile and should bypass
// it.
SLIP_LANES void multiply_wide(const Block& block, Fetching& fetching) {
  fetching.quarter();
  _tile_loadd(4, block.x, kRegisterBytes);
  _tile_stream_loadd(6, block.weight, kRegisterBytes);
  _tile_dpbf16ps(0, 4, 6);
  _tile_loadd(5, block.x + kRegisterRows * kRegisterBytes, kRegisterBytes);
  _tile_dpbf16ps(2, 5, 6);
  fetching.quarter();
  _tile_stream_loadd(7, block.weight + kWeightGroupBytes, kRegisterBytes);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(3, 5, 7);
}

// Sums of 16 rows and up to 16 more × two groups of 16 columns: four loads for four products. One row of registers
// would need five.
void multiply_columns(const MatmulTile& tile, int half) {
  float* upper = tile.sums + 32 * half;
  float* lower = upper + kRegisterRows * kPanelColumns;
  load_sums(tile, {upper, upper + 16, lower, lower + 16});
  const std::int64_t block_bytes = std::int64_t{tile.n_rows} * kRegisterBytes;
  Fetching fetching(tile);
  fetching.skip_quarters(half * static_cast<int>(tile.depth / kBlockSteps) * 2);
  Block block{tile.x, tile.weight + half * 2 * kWeightGroupBytes};
  for (std::int64_t at = 0; at < tile.depth; at += kBlockSteps) {
    multiply_wide(block, fetching);
    block = {block.x + block_bytes, block.weight + kWeightBlockBytes};
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

// Stores rows in blocks, as the tile registers read them.
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
                                      .bf16_stretch = 256,
                                      .bf16_task_rows = kMostTaskRows,
                                      .bf16_least_sharing = 8,
                                      .bf16_streaming_rows = kRegisterRows,
                                      .bf16_rows = blocked_rows,
                                      .bf16_pair_bytes = kPairBytes,
                                      .bf16_in_blocks = true,
                                      .attention = attention,
                                      .attention_rounds = true};

}  // namespace slip::kernels
#endif
