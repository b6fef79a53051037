// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/row_places.h"

#include <algorithm>

#include "kernels/cuda/weights.cuh"

namespace slip {

using kernels::cuda::kTileRows;

void RowPlaces::set(std::span<const std::uint16_t> weights) {
  next_.clear();
  for (const std::uint16_t index : weights) {
    if (index >= next_.size()) next_.resize(std::size_t{index} + 1, 0);
    ++next_[index];
  }
  grouped_ = std::count_if(next_.begin(), next_.end(), [](std::int32_t rows) { return rows > 0; }) > 1;
  tile_weights_.clear();
  for (std::size_t index = 0; index < next_.size(); ++index) {
    const auto n_tiles = static_cast<std::size_t>(kernels::cuda::row_tiles(next_[index]));
    next_[index] = static_cast<std::int32_t>(tile_weights_.size()) * kTileRows;
    tile_weights_.resize(tile_weights_.size() + n_tiles, static_cast<std::int32_t>(index));
  }
  place_.clear();
  for (const std::uint16_t index : weights) place_.push_back(next_[index]++);
  n_places_ = static_cast<std::int32_t>(grouped_ ? tile_weights_.size() * kTileRows : weights.size());
}

}  // namespace slip
