// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_shape.h"

#include <algorithm>
#include <bit>

#include "kernels/cuda/attention.cuh"

namespace slip {
namespace {

std::int32_t rounded_up(std::int32_t n) {
  return static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(n)));
}

std::int32_t filled_up(std::int32_t n) {
  return n == 0 ? 0 : std::max(kLeastCapturedRows, rounded_up(n));
}

}  // namespace

AttentionTiling attention_tiling(const ModelConfig& config) {
  AttentionTiling tiling;
  tiling.heads = std::min(config.n_heads / config.n_kv_heads, std::int32_t{kernels::cuda::kTileQueries});
  tiling.rows = kernels::cuda::kTileQueries / tiling.heads;
  return tiling;
}

DevicePassShape shape_of(const StepNeeds& needs) {
  DevicePassShape shape;
  shape.grouped = needs.grouped;
  shape.captured = !needs.wants_taps && needs.n_rows <= kMostCapturedRows;
  shape.n_rows = shape.captured ? filled_up(needs.n_rows) : needs.n_rows;
  shape.n_logit_rows = shape.captured ? filled_up(needs.n_logit_rows) : needs.n_logit_rows;
  // Sequences of one row each need as many tiles as rows.
  shape.n_tiles = shape.captured ? shape.n_rows : needs.n_tiles;
  const std::int32_t n_splits = (needs.n_ranks + kernels::cuda::kSplitRanks - 1) / kernels::cuda::kSplitRanks;
  const std::int32_t filled_splits = shape.captured ? rounded_up(n_splits) : n_splits;
  if (n_splits > 1 && shape.n_rows <= kMostCapturedRows && shape.n_rows * filled_splits <= kMostSplitSums) {
    shape.n_splits = filled_splits;
  }
  return shape;
}

std::int32_t row_capacity(std::int32_t max_rows) {
  return max_rows <= kMostCapturedRows ? filled_up(max_rows) : max_rows;
}

}  // namespace slip
