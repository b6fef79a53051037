// SPDX-License-Identifier: Apache-2.0
// How weights are addressed, and how activations lie between two matrix products.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/block.cuh"

namespace slip::kernels::cuda {

// One of a model's weights.
template <class T>
struct Weight {
  const T* data = nullptr;
  std::int64_t at = 0;  // bytes from where its model begins: the same in every weight slot of models of this shape

  SLIP_DEVICE bool empty() const { return data == nullptr; }
};

// The tile of the matrix instruction: 16 outputs × 16 of depth for weights, 8 rows × 16 of depth for activations. Both
// are stored in the order in which the 32 lanes hold them, so that a lane's share is one load.
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

// Where each tile of rows finds its model. Read on the device, so that a captured graph goes on with other models once
// the table says so.
struct RowWeights {
  // [row tiles] where a model begins, null: rows of nobody, for which nothing is computed. No table: one model for all
  // rows, at Weight::data.
  const std::byte* const* of_tile = nullptr;
  bool alike = true;  // all tiles have the same weights

  SLIP_DEVICE bool skips(std::int64_t row) const { return of_tile != nullptr && of_tile[row / kTileRows] == nullptr; }
  template <class T>
  SLIP_DEVICE const T* find(const Weight<T>& weight, std::int64_t row) const {
    if (of_tile == nullptr || weight.empty()) return weight.data;
    return reinterpret_cast<const T*>(of_tile[row / kTileRows] + weight.at);
  }
};

// Where W[output, k] stands: [output tile][depth tile][lane][8] bfloat16. Lane 4 g + t holds of outputs g and g + 8 the
// depths 2 t, 2 t + 1, 2 t + 8 and 2 t + 9: PTX ISA, "Matrix Fragments for mma.m16n8k16", operand A.
SLIP_DEVICE std::int64_t weight_at(std::int64_t output, std::int64_t k, std::int64_t n_in) {
  const std::int64_t tile = output / kTileOutputs * depth_tiles(n_in) + k / kTileDepth;
  const std::int64_t lane = output % 8 * 4 + k % 8 / 2;
  const std::int64_t element = k % 2 + output % kTileOutputs / 8 * 2 + k % kTileDepth / 8 * 4;
  return (tile * kWarp + lane) * kWeightsALane + element;
}
// Where x[row, k] stands: [row tile][depth tile][lane][4] bfloat16; operand B of the same instruction.
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
