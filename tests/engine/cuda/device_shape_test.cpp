// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_shape.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/cuda/jobs.h"

namespace slip {
namespace {

StepNeeds decode(std::int32_t n_rows, std::int32_t n_ranks) {
  return {n_rows, n_rows, n_rows, n_ranks, false};
}

TEST(DevicePassShape, FewRowsAreFilledUpAndCaptured) {
  const DevicePassShape one = shape_of(decode(1, 10)), eight = shape_of(decode(8, 200)), nine = shape_of(decode(9, 10));
  EXPECT_TRUE(one.captured);
  EXPECT_EQ(one, eight) << "below the rows of a tile one graph serves all";
  EXPECT_EQ(one.n_rows, 8);
  EXPECT_EQ(one.n_tiles, 8) << "eight sequences of a row each need as many";
  EXPECT_EQ(nine.n_rows, 16);
  EXPECT_EQ(shape_of(decode(64, 10)).n_rows, 64);
}

TEST(DevicePassShape, ManyRowsAndTapsAreAsTheyAre) {
  const DevicePassShape prompt = shape_of({65, 1, 5, 65, false});
  EXPECT_EQ(prompt, (DevicePassShape{65, 1, 5, 0, false}));
  const DevicePassShape tapped = shape_of({3, 1, 2, 70, true});
  EXPECT_EQ(tapped, (DevicePassShape{3, 1, 2, 0, false}));
}

TEST(DevicePassShape, AStepWithoutLogitsHasNone) {
  EXPECT_EQ(shape_of({5, 0, 1, 5, false}).n_logit_rows, 0);
  EXPECT_EQ(shape_of({20, 3, 4, 20, false}).n_logit_rows, 8);
}

// A context that grows changes the shape each time it doubles, not at each split.
TEST(DevicePassShape, SplitsAreRoundedUpToPowersOfTwo) {
  EXPECT_EQ(shape_of(decode(1, 256)).n_splits, 0) << "one split is what one block goes through";
  EXPECT_EQ(shape_of(decode(1, 257)).n_splits, 2);
  EXPECT_EQ(shape_of(decode(1, 1000)).n_splits, 4);
  EXPECT_EQ(shape_of(decode(1, 1025)).n_splits, 8);
  std::set<DevicePassShape> shapes;
  for (std::int32_t n_rows = 1; n_rows <= 64; ++n_rows) {
    for (std::int32_t n_ranks = n_rows; n_ranks <= 131072; n_ranks += 97)
      shapes.insert(shape_of(decode(n_rows, n_ranks)));
  }
  EXPECT_LE(shapes.size(), 40U);
}

TEST(DevicePassShape, SumsOfSplitsStayWithinTheirMemory) {
  for (const std::int32_t n_rows : {1, 8, 16, 33, 64, 65, 300}) {
    for (const std::int32_t n_ranks : {300, 5000, 16384, 16385, 131072}) {
      const DevicePassShape shape = shape_of(decode(n_rows, n_ranks));
      EXPECT_LE(shape.n_rows * shape.n_splits, kMostSplitSums) << n_rows << ", " << n_ranks;
      EXPECT_TRUE(shape.n_splits == 0 || shape.n_splits * 256 >= n_ranks) << n_rows << ", " << n_ranks;
    }
  }
  EXPECT_GT(shape_of(decode(8, 131072)).n_splits, 0) << "few rows of a long context are what splits are for";
}

TEST(DevicePassShape, BuffersHoldEveryShapeOfTheirSteps) {
  for (std::int32_t max_rows = 1; max_rows <= 200; ++max_rows) {
    for (std::int32_t n_rows = 1; n_rows <= max_rows; ++n_rows) {
      ASSERT_LE(shape_of(decode(n_rows, n_rows)).n_rows, row_capacity(max_rows)) << n_rows << " of " << max_rows;
    }
  }
}

TEST(AttentionTiling, FitsEveryModelIntoSharedMemory) {
  for (const std::int32_t head_dim : {6, 12, 64, 80, 128, 192, 256}) {
    for (const std::int32_t group : {1, 3, 4, 8, 32, 128}) {
      const AttentionTiling tiling = attention_tiling({.n_heads = 2 * group, .n_kv_heads = 2, .head_dim = head_dim});
      EXPECT_GE(tiling.rows, 1);
      EXPECT_GE(tiling.heads, 1);
      EXPECT_LE(tiling.heads, group);
      EXPECT_LE(tiling.rows * tiling.heads, kernels::cuda::kTileQueries);
      EXPECT_LE(kernels::cuda::attention_shared_bytes(head_dim, true), kernels::cuda::kMostSharedBytes) << head_dim;
    }
  }
}

}  // namespace
}  // namespace slip
