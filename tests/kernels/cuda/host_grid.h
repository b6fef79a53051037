// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of device code: runs its bodies on the host, and provides data in its layouts.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/weights.cuh"

namespace slip::kernels::cuda {

struct Grid {
  int x = 1, y = 1, z = 1;
};

// Runs every block of a grid in turn; a launch may run them in any order.
template <int kThreads, class Body>
void run_on_host(const Grid& grid, const Body& body) {
  for (int z = 0; z < grid.z; ++z) {
    for (int y = 0; y < grid.y; ++y) {
      for (int x = 0; x < grid.x; ++x) body(Block<kThreads>{x, y, z});
    }
  }
}

inline constexpr std::uint16_t kHalfNan = 0x7FC0;

inline std::vector<std::uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> out;
  for (const float value : values) out.push_back(round_to_bf16(value));
  return out;
}

// W [n_out, n_in] and x [n_rows, n_in] in the layout of the matrix instruction, padded with zeros.
inline std::vector<std::uint16_t> packed_weights(const std::vector<float>& w, std::int64_t n_out, std::int64_t n_in) {
  std::vector<std::uint16_t> packed(static_cast<std::size_t>(packed_weight_elements(n_out, n_in)), 0);
  for (std::int64_t i = 0; i < n_out * n_in; ++i) {
    packed[static_cast<std::size_t>(weight_at(i / n_in, i % n_in, n_in))] =
        round_to_bf16(w[static_cast<std::size_t>(i)]);
  }
  return packed;
}
// Rows beyond the last are NaN, since nothing may read them.
inline std::vector<std::uint16_t> packed_activations(const std::vector<float>& x, std::int64_t n_rows,
                                                     std::int64_t n_in) {
  std::vector<std::uint16_t> packed(static_cast<std::size_t>(activation_elements(n_rows, n_in)), kHalfNan);
  for (std::int64_t row = 0; row < n_rows; ++row) {
    for (std::int64_t k = 0; k < depth_tiles(n_in) * kTileDepth; ++k) {
      const float value = k < n_in ? x[static_cast<std::size_t>(row * n_in + k)] : 0.0F;
      packed[static_cast<std::size_t>(activation_at(row, k, n_in))] = round_to_bf16(value);
    }
  }
  return packed;
}

}  // namespace slip::kernels::cuda
