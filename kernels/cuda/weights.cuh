// SPDX-License-Identifier: Apache-2.0
// The addressing of weights on a device, and the layout of activations between two matrix products.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/block.cuh"

namespace slip::kernels::cuda {

// A weight of a model, as an address or as an offset within any model of the same shape.
template <class T>
struct Weight {
  const T* data = nullptr;
  std::int64_t at = 0;  // byte offset from the start of a model; equal for all models of this shape

  SLIP_DEVICE bool empty() const { return data == nullptr; }
};

// The tile of the tensor-core instruction: 16 outputs × 16 of depth for weights, 8 rows × 16 of depth for activations.
// Both are stored in the order of the 32 lanes, so a lane's part is one load.
inline constexpr int kTileOutputs = 16, kTileDepth = 16, kTileRows = 8;
inline constexpr int kWeightsALane = 8, kActivationsALane = 4;

SLIP_DEVICE std::int64_t depth_tiles(std::int64_t n_in) {
  return (n_in + kTileDepth - 1) / kTileDepth;
}
SLIP_DEVICE std::int64_t output_tiles(std::int64_t n_out) {
  return (n_out + kTileOutputs - 1) / kTileOutputs;
}
SLIP_DEVICE std::int64_t row_tiles(std::int64_t n_rows) {
  return (n_rows + kTileRows - 1) / kTileRows;
}

// The model of each tile of rows. The table is read on the device, so a captured graph uses other models when the table
// changes. No kernel may write it, since a product may read it before the previous kernel is complete
// (early_start.cuh).
struct RowWeights {
  // [row tiles] the start of each tile's model; null: unused tile, nothing is computed. Without a table all rows use
  // Weight::data.
  const std::byte* const* of_tile = nullptr;
  bool alike = true;  // all tiles use the same model

  SLIP_DEVICE bool skips(std::int64_t row) const { return of_tile != nullptr && of_tile[row / kTileRows] == nullptr; }
  template <class T>
  SLIP_DEVICE const T* find(const Weight<T>& weight, std::int64_t row) const {
    if (of_tile == nullptr || weight.empty()) return weight.data;
    return reinterpret_cast<const T*>(of_tile[row / kTileRows] + weight.at);
  }
};

// The index of W[output, k] in [output tile][depth tile][lane][8] bfloat16. Lane 4 g + t holds depths 2 t, 2 t + 1, 2 t
// + 8 and 2 t + 9 of outputs g and g + 8: PTX ISA, "Matrix Fragments for mma.m16n8k16", operand A.
SLIP_DEVICE std::int64_t weight_at(std::int64_t output, std::int64_t k, std::int64_t n_in) {
  const std::int64_t tile = output / kTileOutputs * depth_tiles(n_in) + k / kTileDepth;
  const std::int64_t lane = output % 8 * 4 + k % 8 / 2;
  const std::int64_t element = k % 2 + output % kTileOutputs / 8 * 2 + k % kTileDepth / 8 * 4;
  return (tile * kWarp + lane) * kWeightsALane + element;
}
// The index of x[row, k] in [row tile][depth tile][lane][4] bfloat16, operand B of the same instruction.
SLIP_DEVICE std::int64_t activation_at(std::int64_t row, std::int64_t k, std::int64_t n_in) {
  const std::int64_t tile = row / kTileRows * depth_tiles(n_in) + k / kTileDepth;
  const std::int64_t lane = row % kTileRows * 4 + k % 8 / 2;
  return (tile * kWarp + lane) * kActivationsALane + k % 2 + k % kTileDepth / 8 * 2;
}
SLIP_DEVICE std::int64_t packed_weight_elements(std::int64_t n_out, std::int64_t n_in) {
  return output_tiles(n_out) * depth_tiles(n_in) * kTileOutputs * kTileDepth;
}
SLIP_DEVICE std::int64_t activation_elements(std::int64_t n_rows, std::int64_t n_in) {
  return row_tiles(n_rows) * depth_tiles(n_in) * kTileRows * kTileDepth;
}

}  // namespace slip::kernels::cuda
