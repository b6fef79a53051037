// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/training.h"

namespace slip::kernels {

// The seam between the public operations and their versions by instruction class. One table a class; isa_class() picks
// the one that a process uses. Only plain data crosses it, because each version is compiled with flags of its own.

// Packed weights: panels of output columns one behind the other, each in blocks of depth, [groups of kGroupColumns]
// [kBlockSteps][kGroupColumns] words, filled up with zeros. A word is a float, or a pair of bfloat16 that are
// neighbours along n_in; a group of a block is what a tile register holds.
constexpr int kPanelColumns = 64;
constexpr int kBlockSteps = 16;
constexpr int kGroupColumns = 16;
constexpr std::int64_t kStepBytes = kPanelColumns * 4;
constexpr std::int64_t kWeightBlockBytes = kBlockSteps * kStepBytes;
constexpr std::int64_t kWeightGroupBytes = kBlockSteps * kGroupColumns * 4;
constexpr int kMostTaskRows = 256;
constexpr int kAttentionTileRows = 16;  // rows of one sequence that share a pass over its keys
constexpr int kAttentionTileHeads = 8;
constexpr int kMaxHeadDim = 1024;  // as far as a config may go

// sums [n_rows, kPanelColumns] += x [n_rows, depth] · panelᵀ over one stretch of depth, strictly in order, from zero on
// where it is the first. A step of depth is one word of each column.
struct MatmulTile {
  const std::byte* weight = nullptr;  // the blocks of this stretch
  const std::byte* x = nullptr;       // row 0 at this stretch
  std::int64_t x_stride_bytes = 0;    // from one row to the next
  float* sums = nullptr;
  bool is_first = false;
  std::int64_t depth = 0;
  int n_rows = 0;                          // 1 … KernelTable::f32_tile_rows or bf16_tile_rows
  const std::byte* next_weight = nullptr;  // weights wanted soon, fetched while this tile is worked on; null: none
  std::int64_t next_step_bytes = 0;        // how much of them to fetch at each step of depth
};

// Rows of activations for matmul_bf16: `out` takes x [n_rows, n] in pairs, filled up with zeros to a pair or, in a
// class that wants blocks, to a block.
struct Bf16Rows {
  const float* x = nullptr;
  std::int64_t x_stride = 0, n_rows = 0, n = 0;
  std::byte* out = nullptr;
  std::int64_t row_stride_bytes = 0, block_stride_bytes = 0;
};

// One query row, seen by visible rank: ranks [0, n_listed) are committed slots as the tile lists them, those up to
// n_plain the slots from n_committed on, and later ranks follow the set bits of `ancestors`. Ranks before first_visible
// lie outside the row's window.
struct AttentionRowView {
  const float* q = nullptr;  // of the tile's first head
  float* out = nullptr;
  const std::uint64_t* ancestors = nullptr;
  std::int32_t n_committed = 0;
  std::int32_t n_listed = 0;
  std::int32_t n_plain = 0;
  std::int32_t first_visible = 0;
  std::int32_t n_visible = 0;  // ranks, those outside the window included
};

// Rows of one sequence × query heads of one key head. Committed rank r is slot r, or the r-th slot of the `visible`
// ranges if there are any, and then all rows have the same n_committed.
struct AttentionTile {
  AttentionRowView rows[kAttentionTileRows];
  int n_rows = 0;
  int n_heads = 0;
  const std::int32_t* pages = nullptr;
  const std::int32_t* next_pages = nullptr;  // of the tile that the same thread takes next, for fetching; null: unknown
  std::int32_t next_committed = 0;
  const SlotRange* visible = nullptr;
  std::size_t n_visible_ranges = 0;
  const std::byte* keys = nullptr;       // of this kv head in page 0
  std::int64_t values_offset_bytes = 0;  // from a head's keys to its values
  std::int64_t page_stride_bytes = 0;
  Dtype dtype = Dtype::kBFloat16;
  int head_dim = 0;
  int page_tokens = 0;
  float scale = 0;
};

struct KernelTable {
  void (*matmul_f32)(const MatmulTile&) = nullptr;
  void (*matmul_bf16)(const MatmulTile&) = nullptr;
  void (*end_bf16_tiles)() = nullptr;  // after a thread's last tile of a job over bfloat16, if the class wants to know
  int f32_tile_rows = 0, bf16_tile_rows = 0;  // at most so many rows a tile
  // Steps of weights that all rows pass over before the next ones: they stay in a cache, the sums wait in memory
  // meanwhile, which changes no bit.
  std::int64_t f32_stretch = 0, bf16_stretch = 0;
  // Rows that pass over weights from memory together, at most kMostTaskRows: they should last for the time that takes.
  std::int64_t f32_task_rows = 128, bf16_task_rows = 128;
  void (*bf16_rows)(const Bf16Rows&) = nullptr;
  std::int64_t bf16_pair_bytes = 0;  // bytes that a pair of these activations takes
  bool bf16_in_blocks = false;       // of Activations::kBlockValues; else a row lies together
  void (*attention)(const AttentionTile&) = nullptr;
  bool attention_rounds = false;  // queries and softmax weights to bfloat16 where keys and values are
  void (*rms_norm)(const float* x, const float* weight, std::int64_t n, float eps, float* y) = nullptr;
  void (*rope)(float* x, int n_heads, int head_dim, const float* cos, const float* sin) = nullptr;
  // gate = silu(gate) * up, elementwise.
  void (*silu_multiply)(float* gate, const float* up, std::int64_t n) = nullptr;
  void (*add)(float* x, const float* delta, std::int64_t n) = nullptr;
  std::int64_t (*argmax)(const float* x, std::int64_t n) = nullptr;
  void (*to_bf16)(const float* x, std::int64_t n, std::uint16_t* out) = nullptr;
  void (*rms_norm_back)(const RmsNormBack& row) = nullptr;
  void (*silu_multiply_back)(const float* slope, float* gate, float* up, std::int64_t n) = nullptr;
  void (*dense_attention)(const DenseAttention& head) = nullptr;
  void (*dense_attention_back)(const DenseAttention& head) = nullptr;
};

bool isa_supported(IsaClass isa);               // by this build and this CPU
IsaClass choose_isa(std::string_view wanted);   // isa_class() for this SLIPSTREAM_ISA; empty: the best there is
const KernelTable& kernel_table(IsaClass isa);  // REQUIRES: isa_supported(isa)
const KernelTable& kernel_table();              // of isa_class()

// paged_attention() with a table of the caller's choice: tests compare the classes through it.
struct AttentionArguments {
  const float* q = nullptr;
  std::int64_t q_stride = 0;
  std::span<const AttentionRow> rows;
  int n_heads = 0;
  float scale = 0;
  float* out = nullptr;
  std::int64_t out_stride = 0;
};
void paged_attention_with(const KernelTable& table, const PagedKv& kv, const AttentionArguments& arguments,
                          ThreadPool& pool);

}  // namespace slip::kernels
