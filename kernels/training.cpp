// SPDX-License-Identifier: Apache-2.0
#include "kernels/training.h"

#include <algorithm>

#include "kernels/kernel_table.h"

namespace slip::kernels {

void rms_norm_back(const RmsNormBack& row) {
  kernel_table().rms_norm_back(row);
}

void silu_multiply_back(const float* slope, float* gate, float* up, std::int64_t n) {
  kernel_table().silu_multiply_back(slope, gate, up, n);
}

void dense_attention(const DenseAttention& head) {
  kernel_table().dense_attention(head);
}

void dense_attention_back(const DenseAttention& head) {
  kernel_table().dense_attention_back(head);
}

void transpose(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, float* to,
               std::int64_t to_stride) {
  constexpr std::int64_t kBlock = 16;  // a cache line of either matrix
  for (std::int64_t row = 0; row < rows; row += kBlock) {
    const std::int64_t last_row = std::min(row + kBlock, rows);
    for (std::int64_t column = 0; column < columns; column += kBlock) {
      const std::int64_t last_column = std::min(column + kBlock, columns);
      for (std::int64_t c = column; c < last_column; ++c) {
        for (std::int64_t r = row; r < last_row; ++r) to[c * to_stride + r] = from[r * from_stride + c];
      }
    }
  }
}

}  // namespace slip::kernels
