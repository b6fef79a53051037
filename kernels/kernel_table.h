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

// The kernels of one instruction class as function pointers. isa_class() picks the table that a process uses. Only
// plain data crosses it, since each class is compiled with its own flags.

// Packed weights: consecutive panels of output columns, each in blocks of depth, [groups of kGroupColumns]
// [kBlockSteps][kGroupColumns] words, padded with zeros. A word is a float, or a pair of bfloat16 that are neighbours
// along n_in. One group of a block fills one tile register.
constexpr int kPanelColumns = 64;
constexpr int kBlockSteps = 16;
constexpr int kGroupColumns = 16;
constexpr std::int64_t kStepBytes = kPanelColumns * 4;
constexpr std::int64_t kWeightBlockBytes = kBlockSteps * kStepBytes;
constexpr std::int64_t kWeightGroupBytes = kBlockSteps * kGroupColumns * 4;
constexpr int kMostTaskRows = 256;
constexpr int kAttentionTileRows = 16;  // rows of one sequence that share one pass over its keys
constexpr int kAttentionTileHeads = 8;
constexpr int kMaxHeadDim = 1024;  // the largest value that a config may have

// sums [n_rows, kPanelColumns] += x [n_rows, depth] · panelᵀ over one stretch of depth, strictly in order. The first
// stretch starts from zero. A depth step is one word of each column.
struct MatmulTile {
  const std::byte* weight = nullptr;  // the blocks of this stretch
  const std::byte* x = nullptr;       // row 0 at the start of this stretch
  std::int64_t x_stride_bytes = 0;    // from one row to the next
  float* sums = nullptr;
  bool is_first = false;
  std::int64_t depth = 0;
  int n_rows = 0;            // 1 … KernelTable::f32_tile_rows or bf16_tile_rows; alone, at most bf16_streaming_rows
  bool is_alone = false;     // the only tile of these weights
  bool from_memory = false;  // the weights are not in cache: for a few rows, reading them takes longer than arithmetic
  // Weights needed soon, prefetched while this tile is computed; null: none
  const std::byte* next_weight = nullptr;
  std::int64_t next_step_bytes = 0;  // bytes of them to prefetch per depth step
};

// Rows of activations for matmul_bf16. `out` receives x [n_rows, n] in pairs, padded with zeros to a pair or, in a
// class that reads blocks, to a block.
struct Bf16Rows {
  const float* x = nullptr;
  std::int64_t x_stride = 0, n_rows = 0, n = 0;
  std::byte* out = nullptr;
  std::int64_t row_stride_bytes = 0, block_stride_bytes = 0;
};

// One query row; its visible slots are addressed by rank. Ranks [0, n_listed) are the committed slots that the tile
// lists, those up to n_plain are the slots from n_committed on, and later ranks follow the set bits of `ancestors`.
// Ranks before first_visible lie outside the row's window.
struct AttentionRowView {
  const float* q = nullptr;  // for the tile's first head
  float* out = nullptr;
  const std::uint64_t* ancestors = nullptr;
  std::int32_t n_committed = 0;
  std::int32_t n_listed = 0;
  std::int32_t n_plain = 0;
  std::int32_t first_visible = 0;
  std::int32_t n_visible = 0;  // number of ranks, including those outside the window
};

// Rows of one sequence × query heads of one key head. Committed rank r is slot r or, if there are `visible` ranges, the
// r-th slot of them; then all rows have the same n_committed.
struct AttentionTile {
  AttentionRowView rows[kAttentionTileRows];
  int n_rows = 0;
  int n_heads = 0;
  const std::int32_t* pages = nullptr;
  // Of the tile that this thread takes next, for prefetching; null: unknown
  const std::int32_t* next_pages = nullptr;
  std::int32_t next_committed = 0;
  std::int32_t next_first = 0;  // the first rank that its first row sees
  const SlotRange* visible = nullptr;
  std::size_t n_visible_ranges = 0;
  const std::byte* keys = nullptr;       // of this kv head, in page 0
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
  void (*end_bf16_tiles)() = nullptr;         // called after a thread's last bfloat16 tile of a job; null: not needed
  int f32_tile_rows = 0, bf16_tile_rows = 0;  // most rows of a tile
  // Depth steps that all rows process before the next stretch. A stretch's weights stay in cache while the sums wait in
  // memory. This does not change any bit.
  std::int64_t f32_stretch = 0, bf16_stretch = 0;
  // Rows that share one pass over the weights, at most kMostTaskRows. Their arithmetic should take as long as reading
  // the weights.
  std::int64_t f32_task_rows = 128, bf16_task_rows = 128;
  // The least number of parts into which several row tiles divide the prefetching of the next stretch; each tile takes
  // one part. Where tiles compute fast, larger parts would exceed what the memory delivers. Such prefetches are
  // dropped, and delay the tile's own loads.
  std::int64_t bf16_least_sharing = 1;
  // Up to this many rows are one tile, even beyond bf16_tile_rows. matmul() prefetches nothing for it: it reads its
  // weights from memory itself.
  std::int64_t bf16_streaming_rows = 0;
  void (*bf16_rows)(const Bf16Rows&) = nullptr;
  std::int64_t bf16_pair_bytes = 0;  // bytes of a pair of activations
  bool bf16_in_blocks = false;       // in blocks of Activations::kBlockValues; else each row is contiguous
  void (*attention)(const AttentionTile&) = nullptr;
  bool attention_rounds = false;  // rounds queries and softmax weights to bfloat16 if keys and values are
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

bool isa_supported(IsaClass isa);  // by this build and this CPU
// isa_class() for this SLIPSTREAM_ISA; empty: the best class available
IsaClass choose_isa(std::string_view wanted);
const KernelTable& kernel_table(IsaClass isa);  // REQUIRES: isa_supported(isa)
const KernelTable& kernel_table();              // of isa_class()

// paged_attention() with a given table; tests compare the classes with it.
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
