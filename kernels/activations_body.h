// SPDX-License-Identifier: Apache-2.0
// float32 rows rounded to bfloat16, in the forms that matmul tiles read; included by one source file an instruction
// class.
#pragma once

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

// As bfloat16, two to a 32-bit lane.
[[maybe_unused]] void paired_activations(const float* x, std::int64_t x_stride, int n_rows, std::int64_t n, void* out) {
  auto* to = static_cast<std::uint16_t*>(out);
  for (int row = 0; row < n_rows; ++row, x += x_stride, to += n + n % 2) {
    to_bf16_lanes(x, n, to);
    if (n % 2 != 0) to[n] = 0;
  }
}

// As float32.
[[maybe_unused]] void widened_activations(const float* x, std::int64_t x_stride, int n_rows, std::int64_t n,
                                          void* out) {
  auto* to = static_cast<float*>(out);
  for (int row = 0; row < n_rows; ++row, x += x_stride, to += n + n % 2) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store(to + i, round_to_bf16(load(x + i)));
    store_first(to + i, round_to_bf16(load_first(x + i, n - i)), n - i + n % 2);
  }
}

}  // namespace
}  // namespace slip::kernels
