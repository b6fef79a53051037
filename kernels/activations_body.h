// SPDX-License-Identifier: Apache-2.0
// Convert float32 rows to the layouts that the matmul tiles read. Each instruction class's source file includes this.
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/lanes.h"

namespace slip::kernels {
namespace {

[[maybe_unused]] void to_bf16_lanes(const float* x, std::int64_t n, std::uint16_t* out) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_bf16(out + i, load(x + i));
  if (i == n) return;
  std::uint16_t last[kLanes];
  store_bf16(last, load_first(x + i, n - i));
  __builtin_memcpy(out + i, last, static_cast<std::size_t>(n - i) * sizeof *out);
}

// Rounds to bfloat16, two values per 32-bit lane.
[[maybe_unused]] void paired_rows(const Bf16Rows& rows) {
  for (std::int64_t row = 0; row < rows.n_rows; ++row) {
    auto* to = reinterpret_cast<std::uint16_t*>(rows.out + row * rows.row_stride_bytes);
    to_bf16_lanes(rows.x + row * rows.x_stride, rows.n, to);
    if (rows.n % 2 != 0) to[rows.n] = 0;
  }
}

// Rounds to bfloat16 and widens back to float32.
[[maybe_unused]] void widened_rows(const Bf16Rows& rows) {
  for (std::int64_t row = 0; row < rows.n_rows; ++row) {
    const float* x = rows.x + row * rows.x_stride;
    auto* to = reinterpret_cast<float*>(rows.out + row * rows.row_stride_bytes);
    std::int64_t i = 0;
    for (; i + kLanes <= rows.n; i += kLanes) store(to + i, round_to_bf16(load(x + i)));
    store_first(to + i, round_to_bf16(load_first(x + i, rows.n - i)), rows.n - i + rows.n % 2);
  }
}

}  // namespace
}  // namespace slip::kernels
