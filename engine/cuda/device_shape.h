// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <span>

#include "checkpoints/model_config.h"

namespace slip {

// The maximum query rows and heads of one attention tile, which one thread block processes.
struct AttentionTiling {
  std::int32_t rows = 1, heads = 1;
};
// Takes heads of a group first, since they read the same keys, then rows.
AttentionTiling attention_tiling(const ModelConfig& config);

// The requirements of one step on its pass.
struct StepNeeds {
  std::int32_t n_rows = 0, n_logit_rows = 0;
  std::int32_t n_tiles = 0;  // attention tiles, each as full as the tiling allows
  std::int32_t n_ranks = 0;  // maximum slots that a row sees
  bool wants_taps = false;
  bool grouped = false;  // sequences have different weights: rows are counted with the padding of their tiles
};

// The grid sizes of a pass. A step with fewer rows than its shape is padded with rows that store nothing and are never
// read. All steps of one shape enqueue the same jobs, so one captured pass serves them all. No bit of a row depends on
// the shape.
struct DevicePassShape {
  std::int32_t n_rows = 0, n_logit_rows = 0, n_tiles = 0;
  std::int32_t n_splits = 0;  // splits of attention, one block each; 0: one block processes all slots
  bool captured = false;
  bool grouped = false;  // tiles of rows may have different weights
  auto operator<=>(const DevicePassShape&) const = default;
};

// Steps of at most kMostCapturedRows rows are captured unless they want taps, with rows, wanted logits and splits
// rounded up to powers of two. Up to the eight rows of a matrix product's tile, further rows cost nothing, so one graph
// serves all.
inline constexpr std::int32_t kLeastCapturedRows = 8, kMostCapturedRows = 64;
// Maximum rows × splits with partial sums; beyond it the rows alone fill the device.
inline constexpr std::int32_t kMostSplitSums = 4096;

DevicePassShape shape_of(const StepNeeds& needs);
// Rows that a pass's buffers need for steps of up to `max_rows`.
std::int32_t row_capacity(std::int32_t max_rows);

}  // namespace slip
