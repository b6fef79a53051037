// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slip {

// Where rows stand in a pass: one behind the other where all have the same weights, else those of equal weights
// together, in their order, each such run from a tile of kernels::cuda::kTileRows rows on.
class RowPlaces {
 public:
  // weights[i]: which weights row i has.
  void set(std::span<const std::uint16_t> weights);

  std::int32_t of(std::size_t row) const { return place_[row]; }
  std::int32_t n_places() const { return n_places_; }  // taken, with what fills up the tiles between
  bool grouped() const { return grouped_; }            // not all have the same
  // Which weights the rows of each tile have.
  std::span<const std::int32_t> weights_of_tiles() const { return tile_weights_; }

 private:
  std::vector<std::int32_t> place_;         // [n_row]
  std::vector<std::int32_t> tile_weights_;  // [tiles taken]
  std::vector<std::int32_t> next_;          // [weights] rows, then the place of the next one
  std::int32_t n_places_ = 0;
  bool grouped_ = false;
};

}  // namespace slip
