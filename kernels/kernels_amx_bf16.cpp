// SPDX-License-Identifier: Apache-2.0
// The kernels for AMX with TDPBF16PS, which multiplies 16 rows with 16 columns and 32 of depth in one instruction. It
// reads packed weights directly, since a depth step holds pairs of neighbours along n_in.
#include "kernels/isa_tables.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>

#include "kernels/activations.h"
#include "kernels/activations_body.h"
#include "kernels/attention_amx_body.h"
#include "kernels/tile_config.h"

namespace slip::kernels {
namespace {

constexpr int kTileRows = 2 * kRegisterRows;       // most rows of a tile that shares its weights
constexpr int kStreamingRows = 3 * kRegisterRows;  // most rows of one that is alone
static_assert(kStreamingRows > kTileRows, "a tile that shares its weights has more than 16 rows");
static_assert(kBlockSteps == kRegisterRows && kGroupColumns == kLanes);
static_assert(2 * kBlockSteps == Activations::kBlockValues);
constexpr std::int64_t kPairBytes = 4;
constexpr std::int64_t kSumsStride = kPanelColumns * sizeof(float);

// How many groups ahead of its use a group comes into the first-level cache. So near, the tile's loads follow the
// stream that the hardware prefetcher reads. Requests farther ahead, or for the second-level cache, stay open until the
// memory answers and hold up the loads: one to eight rows took 1.08 times as long (a Xeon with 480 MiB of third-level
// cache).
constexpr std::int64_t groups_ahead(int n_registers) {
  return n_registers > 2 ? 2 : 1;
}

// The only tile of its weights, of up to 48 rows in kRegisters registers: `upper` rows in the first, `lower` in each
// other. It reads the weights in the order of memory, and each group meets all rows at once: the memory is never idle
// for longer than a few products take. The sums that do not fit beside the rows stay in the first-level cache. Holding
// the sums of 32 rows in registers, for half of the columns at a time, took 1.15 times as long.
//
// Pointers and counts are passed by value, without lambdas: GCC 12 keeps captures on the stack, between stores of
// tiles, and 32 rows took 1.05 times as long.
template <int kRegisters>
class StreamingTile {
 public:
  static void multiply(const MatmulTile& tile) {
    const std::int64_t lower = (tile.n_rows + kRegisters - 1) / kRegisters, upper = tile.n_rows - kOthers * lower;
    const std::int64_t block_bytes = tile.n_rows * std::int64_t{kRegisterBytes};
    float* const sums = tile.sums;
    const std::byte *x = tile.x, *weight = tile.weight;
    configure(rows_of_registers(upper, lower));
    begin(tile, upper);
    for (std::int64_t at = 0; at < tile.depth; at += kBlockSteps) {
      load_rows(x, upper, lower);
      multiply_groups(weight, sums, upper, lower);
      x += block_bytes;
      weight += kWeightBlockBytes;
    }
    store_held(sums);
  }

 private:
  static constexpr int kGroups = kPanelColumns / kGroupColumns, kOthers = kRegisters - 1;
  // From register 0 on: the first rows' sums with the first kHeld groups; if more do not fit, one for the first rows'
  // other sums; all rows; columns; one for the other rows' sums.
  static constexpr int kColumns = 6, kLowerSums = 7, kRows = kColumns - kRegisters, kUpperSums = kRows - 1;
  static constexpr int kHeld = kRows < kGroups ? kUpperSums : kGroups;

  static RegisterRows rows_of_registers(std::int64_t upper, std::int64_t lower) {
    RegisterRows rows;
    rows.fill(static_cast<std::uint8_t>(lower));
    std::fill_n(rows.begin(), kRows + 1, static_cast<std::uint8_t>(upper));
    rows[kColumns] = kRegisterRows;
    return rows;
  }
  static void begin(const MatmulTile& tile, std::int64_t upper) {
    if (!tile.is_first) return load_held(tile.sums);
    zero_held();
    const std::int64_t held_rows = kHeld == kGroups ? upper : 0;
    std::fill(tile.sums + held_rows * kPanelColumns, tile.sums + tile.n_rows * kPanelColumns, 0.0F);
    finish_stores();
  }
  template <int g = 0>
  SLIP_LANES static void zero_held() {
    zero_tile<g>();
    if constexpr (g + 1 < kHeld) zero_held<g + 1>();
  }
  template <int g = 0>
  SLIP_LANES static void load_held(const float* sums) {
    load_tile<g>(sums, kSumsStride);
    if constexpr (g + 1 < kHeld) load_held<g + 1>(sums + kGroupColumns);
  }
  template <int g = 0>
  SLIP_LANES static void store_held(float* sums) {
    store_tile<g>(sums, kSumsStride);
    if constexpr (g + 1 < kHeld) store_held<g + 1>(sums + kGroupColumns);
  }

  template <int r = 0>
  SLIP_LANES static void load_rows(const std::byte* x, std::int64_t upper, std::int64_t lower) {
    load_tile<kRows + r>(x, kRegisterBytes);
    if constexpr (r < kOthers) load_rows<r + 1>(x + (r == 0 ? upper : lower) * kRegisterBytes, upper, lower);
  }
  template <int g = 0>
  SLIP_LANES static void multiply_groups(const std::byte* group, float* sums, std::int64_t upper, std::int64_t lower) {
    multiply_group<g>(group, sums, upper, lower);
    if constexpr (g + 1 < kGroups) {
      multiply_groups<g + 1>(group + kWeightGroupBytes, sums + kGroupColumns, upper, lower);
    }
  }
  template <int g, int r = 0>
  SLIP_LANES static void multiply_group(const std::byte* group, float* sums, std::int64_t upper, std::int64_t lower) {
    fetch_part<r>(group);
    if constexpr (r == 0) load_tile<kColumns>(group, kRegisterBytes);
    if constexpr (r == 0 && g < kHeld) {
      multiply_tiles<g, kRows, kColumns>();
      if constexpr (kRegisters == 1) fetch_part<1>(group);
    } else {
      constexpr int kSums = r == 0 ? kUpperSums : kLowerSums;
      load_tile<kSums>(sums, kSumsStride);
      multiply_tiles<kSums, kRows + r, kColumns>();
      store_tile<kSums>(sums, kSumsStride);
    }
    if constexpr (r < kOthers) {
      multiply_group<g, r + 1>(group, sums + (r == 0 ? upper : lower) * kPanelColumns, upper, lower);
    }
  }
  // Brings a part of a later group into the first-level cache, between two products: a tile load requests sixteen lines
  // at once and waits for the slowest.
  static constexpr int kParts = std::max(kRegisters, 2);
  template <int part>
  SLIP_LANES static void fetch_part(const std::byte* group) {
    constexpr std::int64_t kBegin = kRegisterRows * part / kParts, kEnd = kRegisterRows * (part + 1) / kParts;
    const std::byte* next = group + groups_ahead(kRegisters) * kWeightGroupBytes;
#pragma GCC unroll 16
    for (std::int64_t line = kBegin; line < kEnd; ++line) __builtin_prefetch(next + line * kLineBytes, 0, 3);
  }
};

void stream(const MatmulTile& tile) {
  if (tile.n_rows <= kRegisterRows) return StreamingTile<1>::multiply(tile);
  if (tile.n_rows <= 2 * kRegisterRows) return StreamingTile<2>::multiply(tile);
  StreamingTile<3>::multiply(tile);
}

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

 private:
  const std::byte* next_;
  std::int64_t bytes_;
};

// Loads the sums into registers 0 to 3.
SLIP_LANES void load_sums(const MatmulTile& tile, const float* upper, const float* lower) {
  if (tile.is_first) {
    zero_tile<0>();
    zero_tile<1>();
    zero_tile<2>();
    zero_tile<3>();
    return;
  }
  load_tile<0>(upper, kSumsStride);
  load_tile<1>(upper + kGroupColumns, kSumsStride);
  load_tile<2>(lower, kSumsStride);
  load_tile<3>(lower + kGroupColumns, kSumsStride);
}

// One block of depth: activations [n_rows][64 bytes] and weights.
struct Block {
  const std::byte* x;
  const std::byte* weight;
};

// The rows stay in the first-level cache for the other columns. Weights are used once per row tile and should bypass
// it.
SLIP_LANES void multiply_wide(const Block& block, Fetching& fetching) {
  fetching.quarter();
  load_tile<4>(block.x, kRegisterBytes);
  load_tile_once<6>(block.weight, kRegisterBytes);
  multiply_tiles<0, 4, 6>();
  load_tile<5>(block.x + kRegisterRows * kRegisterBytes, kRegisterBytes);
  multiply_tiles<2, 5, 6>();
  fetching.quarter();
  load_tile_once<7>(block.weight + kWeightGroupBytes, kRegisterBytes);
  multiply_tiles<1, 4, 7>();
  multiply_tiles<3, 5, 7>();
}

// A tile that shares its weights, of more than 16 rows. Sums of 16 rows and the others × two groups of 16 columns: four
// loads for four products. One row of registers would need five.
void multiply_columns(const MatmulTile& tile, int half) {
  float* upper = tile.sums + 32 * half;
  float* lower = upper + kRegisterRows * kPanelColumns;
  load_sums(tile, upper, lower);
  const std::int64_t block_bytes = std::int64_t{tile.n_rows} * kRegisterBytes;
  Fetching fetching(tile);
  fetching.skip_quarters(half * static_cast<int>(tile.depth / kBlockSteps) * 2);
  Block block{tile.x, tile.weight + half * 2 * kWeightGroupBytes};
  for (std::int64_t at = 0; at < tile.depth; at += kBlockSteps) {
    multiply_wide(block, fetching);
    block = {block.x + block_bytes, block.weight + kWeightBlockBytes};
  }
  store_tile<0>(upper, kSumsStride);
  store_tile<1>(upper + 16, kSumsStride);
  store_tile<2>(lower, kSumsStride);
  store_tile<3>(lower + 16, kSumsStride);
}

void amx_tile(const MatmulTile& tile) {
  if (tile.is_alone) return stream(tile);
  const auto lower = static_cast<std::uint8_t>(tile.n_rows - kRegisterRows);
  configure({kRegisterRows, kRegisterRows, lower, lower, kRegisterRows, lower, kRegisterRows, kRegisterRows});
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
  if (tile.dtype != Dtype::kBFloat16) return kAvx512Kernels.attention(tile);
  amx_attention_tile(tile);
}

}  // namespace

const KernelTable kAmxBf16Kernels = {.matmul_bf16 = amx_tile,
                                     .end_bf16_tiles = end_tiles,
                                     .bf16_tile_rows = kTileRows,
                                     .bf16_stretch = 256,
                                     .bf16_task_rows = kMostTaskRows,
                                     .bf16_least_sharing = 8,
                                     .bf16_streaming_rows = kStreamingRows,
                                     .bf16_rows = blocked_rows,
                                     .bf16_pair_bytes = kPairBytes,
                                     .bf16_in_blocks = true,
                                     .attention = attention,
                                     .attention_rounds = true};

}  // namespace slip::kernels
#endif
