// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slip {

// The positions of rows in a pass. If all have the same weights, rows are contiguous. Otherwise rows of equal weights
// are grouped, in their order, and each group begins at a tile of kernels::cuda::kTileRows rows.
class RowPlaces {
 public:
  // weights[i]: the index of row i's weights.
  void set(std::span<const std::uint16_t> weights);

  std::int32_t of(std::size_t row) const { return place_[row]; }
  std::int32_t n_places() const { return n_places_; }  // used positions, including the padding of tiles
  bool grouped() const { return grouped_; }            // rows have different weights
  // The weight index of each tile.
  std::span<const std::int32_t> weights_of_tiles() const { return tile_weights_; }

 private:
  std::vector<std::int32_t> place_;         // [n_row]
  std::vector<std::int32_t> tile_weights_;  // [tiles used]
  std::vector<std::int32_t> next_;          // [weights] number of rows, then the next free position
  std::int32_t n_places_ = 0;
  bool grouped_ = false;
};

}  // namespace slip
