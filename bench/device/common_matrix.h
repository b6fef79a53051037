// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip::bench {

// A matrix [n_rows, n_columns] of bfloat16 with element (i, k) = random_half(seed, i · n_columns + k). Gigabytes are
// generated on the device, and the host can compute any element.
struct RandomMatrix {
  std::int64_t n_rows = 0, n_columns = 0;
  std::uint64_t seed = 0;
};
enum class Layout {
  kRows,         // row-major
  kWeights,      // weight_at(row, column)
  kActivations,  // activation_at(row, column)
};

}  // namespace slip::bench
