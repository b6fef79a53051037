// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/tensor_view.h"

namespace slip::kernels {

struct KernelTable;

// The left operand of a product, x [n_rows, n_in], in the layout that the instruction class reads: rounded to bfloat16
// if the weights are, and split evenly into row tiles, each stored in blocks of depth. A view of the caller's memory.
// The producer of a row writes it here while the row is in cache. Threads: any number may set different rows or values
// at once.
class Activations {
 public:
  // Values per block in every class's layout; set_values() must begin at a multiple of it.
  static constexpr std::int64_t kBlockValues = 32;

  // Uses the process's instruction class. `compute` is the weight's; `memory` is aligned to 64 bytes and holds bytes().
  Activations(Dtype compute, std::int64_t n_rows, std::int64_t n_in, void* memory);
  Activations(const KernelTable& table, Dtype compute, std::int64_t n_rows, std::int64_t n_in, void* memory);
  // The size for the class and format with the largest layout.
  static std::size_t bytes(std::int64_t n_rows, std::int64_t n_in);

  // values [n_in], float32.
  void set_row(std::int64_t row, const float* values) const { set_values({row, 1, 0, n_in_}, values, 0); }
  struct Part {
    std::int64_t row = 0, n_rows = 0;  // within one tile
    std::int64_t first = 0, n_in = 0;  // a range of values; a row is complete once all of [0, n_in) is set
  };
  // values [part.n_rows, part.n_in], float32, rows `stride` apart.
  void set_values(const Part& part, const float* values, std::int64_t stride) const;

  const KernelTable& table() const { return *table_; }
  Dtype compute_dtype() const { return compute_; }
  std::int64_t n_rows() const { return n_rows_; }
  std::int64_t n_in() const { return n_in_; }

  // Read by the products. Tile t has the rows [first_row(t), first_row(t + 1)).
  std::int64_t n_tiles() const { return n_tiles_; }
  std::int64_t first_row(std::int64_t tile) const { return n_rows_ * tile / n_tiles_; }
  std::int64_t row_bytes() const { return row_bytes_; }  // of a whole row, over all its blocks
  // From one row to the next within a block of a tile
  std::int64_t row_stride_bytes() const { return row_stride_bytes_; }
  // Row `row` at depth step `step`, which must begin a block.
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
