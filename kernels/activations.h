// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/tensor_view.h"

namespace slip::kernels {

struct KernelTable;

// What a product multiplies its weights with, x [n_rows, n_in], in the form in which an instruction class reads it:
// rounded to bfloat16 where the weights are, and dealt out evenly to tiles of rows, each of which lies together in
// blocks of depth. A view of the caller's memory; who makes a row of x puts it there while it is in the cache.
// Threads: any number may set different rows or values at once.
class Activations {
 public:
  // Values that lie together in every class's form: set_values() begins at a multiple of it.
  static constexpr std::int64_t kBlockValues = 32;

  // Of the process's class. `compute` is that of the weight; `memory` is aligned to 64 bytes and has bytes() of them.
  Activations(Dtype compute, std::int64_t n_rows, std::int64_t n_in, void* memory);
  Activations(const KernelTable& table, Dtype compute, std::int64_t n_rows, std::int64_t n_in, void* memory);
  // What the class and format that want most take.
  static std::size_t bytes(std::int64_t n_rows, std::int64_t n_in);

  // values [n_in], float32.
  void set_row(std::int64_t row, const float* values) const { set_values({row, 1, 0, n_in_}, values, 0); }
  struct Part {
    std::int64_t row = 0, n_rows = 0;  // within one tile
    std::int64_t first = 0, n_in = 0;  // values; all rows are whole once every part up to n_in is set
  };
  // values [part.n_rows, part.n_in], float32, rows `stride` apart.
  void set_values(const Part& part, const float* values, std::int64_t stride) const;

  const KernelTable& table() const { return *table_; }
  Dtype compute_dtype() const { return compute_; }
  std::int64_t n_rows() const { return n_rows_; }
  std::int64_t n_in() const { return n_in_; }

  // For the products. Tile t has the rows [first_row(t), first_row(t + 1)).
  std::int64_t n_tiles() const { return n_tiles_; }
  std::int64_t first_row(std::int64_t tile) const { return n_rows_ * tile / n_tiles_; }
  std::int64_t row_bytes() const { return row_bytes_; }                // of a whole row, wherever its blocks lie
  std::int64_t row_stride_bytes() const { return row_stride_bytes_; }  // within a block of a tile
  // Row `row` at step `step` of the depth, which begins a block.
  const std::byte* at(std::int64_t row, std::int64_t step) const { return place(row, step * values_a_step_); }

 private:
  std::byte* place(std::int64_t row, std::int64_t first) const;

  const KernelTable* table_;
  Dtype compute_;
  std::int64_t n_rows_, n_in_, n_tiles_;
  std::byte* memory_;
  bool in_blocks_;
  std::int64_t values_a_step_, step_bytes_;
  std::int64_t row_bytes_, row_stride_bytes_;
};

}  // namespace slip::kernels
