// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/row_places.h"

#include <gtest/gtest.h>

#include <set>

namespace slip {
namespace {

std::vector<std::int32_t> places_of(const RowPlaces& places, std::size_t n) {
  std::vector<std::int32_t> out;
  for (std::size_t row = 0; row < n; ++row) out.push_back(places.of(row));
  return out;
}

TEST(RowPlaces, RowsOfOneModelStandOneBehindTheOther) {
  RowPlaces places;
  for (const std::uint16_t weights : {0, 3}) {
    places.set(std::vector<std::uint16_t>(10, weights));
    EXPECT_EQ(places_of(places, 10), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    EXPECT_EQ(places.n_places(), 10);
    EXPECT_FALSE(places.grouped());
    EXPECT_EQ(std::vector(places.weights_of_tiles().begin(), places.weights_of_tiles().end()),
              (std::vector<std::int32_t>{weights, weights}));
  }
  places.set({});
  EXPECT_EQ(places.n_places(), 0);
  EXPECT_TRUE(places.weights_of_tiles().empty());
}

// Nine rows of model 2 take two tiles; model 1 has none.
TEST(RowPlaces, EachModelsRowsBeginATile) {
  RowPlaces places;
  std::vector<std::uint16_t> weights{2, 0, 2, 0, 4};
  weights.resize(12, 2);
  places.set(weights);
  EXPECT_TRUE(places.grouped());
  EXPECT_EQ(places.n_places(), 32);
  EXPECT_EQ(std::vector(places.weights_of_tiles().begin(), places.weights_of_tiles().end()),
            (std::vector<std::int32_t>{0, 2, 2, 4}));
  EXPECT_EQ(places_of(places, 12), (std::vector<std::int32_t>{8, 0, 9, 1, 24, 10, 11, 12, 13, 14, 15, 16}));
}

TEST(RowPlaces, NoTwoRowsShareAPlaceOrATileOfAnothersWeights) {
  RowPlaces places;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    std::vector<std::uint16_t> weights;
    for (std::uint32_t i = 0; i < seed % 70; ++i)
      weights.push_back(static_cast<std::uint16_t>(i * seed * 7 % (1 + seed % 5)));
    places.set(weights);
    std::set<std::int32_t> taken;
    for (std::size_t row = 0; row < weights.size(); ++row) {
      ASSERT_TRUE(taken.insert(places.of(row)).second);
      ASSERT_LT(places.of(row), places.n_places());
      ASSERT_EQ(places.weights_of_tiles()[static_cast<std::size_t>(places.of(row)) / 8], weights[row]);
    }
  }
}

}  // namespace
}  // namespace slip
