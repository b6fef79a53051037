// SPDX-License-Identifier: Apache-2.0
#include "kernels/activations.h"

#include <algorithm>
#include <cstring>

#include "common/error.h"
#include "kernels/kernel_table.h"

namespace slip::kernels {
namespace {

// Bytes of one row in a block, for classes that read blocks of bfloat16 pairs
constexpr std::int64_t kBlockBytes = 64;

std::int64_t ceil_div(std::int64_t n, std::int64_t by) {
  return (n + by - 1) / by;
}

}  // namespace

Activations::Activations(Dtype compute, std::int64_t n_rows, std::int64_t n_in, void* memory)
    : Activations(kernel_table(), compute, n_rows, n_in, memory) {}

Activations::Activations(const KernelTable& table, Dtype compute, std::int64_t n_rows, std::int64_t n_in, void* memory)
    : table_(&table), compute_(compute), n_rows_(n_rows), n_in_(n_in), memory_(static_cast<std::byte*>(memory)) {
  const bool is_bf16 = compute == Dtype::kBFloat16;
  in_blocks_ = is_bf16 && table.bf16_in_blocks;
  values_a_step_ = is_bf16 ? 2 : 1;
  step_bytes_ = is_bf16 ? table.bf16_pair_bytes : std::int64_t{sizeof(float)};
  const bool is_one_tile = is_bf16 && n_rows <= table.bf16_streaming_rows;
  n_tiles_ = is_one_tile ? 1 : ceil_div(n_rows, is_bf16 ? table.bf16_tile_rows : table.f32_tile_rows);
  row_bytes_ = in_blocks_ ? ceil_div(n_in, kBlockValues) * kBlockBytes : ceil_div(n_in, values_a_step_) * step_bytes_;
  row_stride_bytes_ = in_blocks_ ? kBlockBytes : row_bytes_;
}

std::size_t Activations::bytes(std::int64_t n_rows, std::int64_t n_in) {
  return static_cast<std::size_t>(n_rows * ceil_div((n_in + 1) * std::int64_t{sizeof(float)}, kBlockBytes) *
                                  kBlockBytes);
}

std::byte* Activations::place(std::int64_t row, std::int64_t first) const {
  if (!in_blocks_) return memory_ + row * row_bytes_ + first / values_a_step_ * step_bytes_;
  const std::int64_t tile = ((row + 1) * n_tiles_ - 1) / n_rows_;
  const std::int64_t begin = first_row(tile), tile_rows = first_row(tile + 1) - begin;
  return memory_ + begin * row_bytes_ + (first / kBlockValues * tile_rows + row - begin) * kBlockBytes;
}

void Activations::set_values(const Part& part, const float* values, std::int64_t stride) const {
  if (part.n_rows == 0) return;
  std::byte* to = place(part.row, part.first);
  if (compute_ == Dtype::kBFloat16) {
    const std::int64_t block_stride = in_blocks_ ? place(part.row, kBlockValues) - place(part.row, 0) : 0;
    table_->bf16_rows({values, stride, part.n_rows, part.n_in, to, row_stride_bytes_, block_stride});
    return;
  }
  for (std::int64_t r = 0; r < part.n_rows; ++r) {
    std::memcpy(to + r * row_stride_bytes_, values + r * stride, static_cast<std::size_t>(part.n_in) * sizeof(float));
  }
}

}  // namespace slip::kernels
