// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip::bench {

// A matrix [n_rows, n_columns] of bfloat16 whose element (i, k) is random_half(seed, i · n_columns + k), so that
// gigabytes of it are made on the device and any element is known on the host.
struct RandomMatrix {
  std::int64_t n_rows = 0, n_columns = 0;
  std::uint64_t seed = 0;
};
enum class Layout {
  kRows,         // row by row
  kWeights,      // weight_at(row, column)
  kActivations,  // activation_at(row, column)
};

}  // namespace slip::bench
