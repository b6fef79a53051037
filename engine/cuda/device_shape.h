// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <span>

#include "checkpoints/model_config.h"

namespace slip {

// How the query rows and heads of a model share out among blocks of attention: how many of each a tile has at most.
struct AttentionTiling {
  std::int32_t rows = 1, heads = 1;
};
// Heads of a group first, since they read the same keys, then rows, while two blocks fit a multiprocessor.
AttentionTiling attention_tiling(const ModelConfig& config);

// What one step asks of a pass.
struct StepNeeds {
  std::int32_t n_rows = 0, n_logit_rows = 0;
  std::int32_t n_tiles = 0;  // of attention, filled as the tiling allows
  std::int32_t n_ranks = 0;  // no row sees more slots
  bool wants_taps = false;
  bool grouped = false;  // sequences have weights of their own: rows are counted with those that fill up their tiles
};

// The grids of a pass. A step of fewer rows than its shape's is filled up with rows that store nothing and that nobody
// reads; steps of one shape put the same jobs, so a pass that was captured for a shape serves all of them. No bit of a
// row depends on the shape.
struct PassShape {
  std::int32_t n_rows = 0, n_logit_rows = 0, n_tiles = 0;
  std::int32_t n_splits = 0;  // of attention, each a block of its own; 0: one block goes through all of them
  bool captured = false;
  bool grouped = false;  // some tiles of rows have other weights than others
  auto operator<=>(const PassShape&) const = default;
};

// Steps of at most so many rows are captured, by their rows, wanted logits and splits rounded up to powers of two:
// below the eight rows of a tile of the matrix product a row costs nothing, and one graph serves all.
inline constexpr std::int32_t kLeastCapturedRows = 8, kMostCapturedRows = 64;
// Rows times splits whose sums are kept at once; beyond it rows alone fill the device.
inline constexpr std::int32_t kMostSplitSums = 4096;

PassShape shape_of(const StepNeeds& needs);
// How many rows the buffers of a pass need for steps of up to `max_rows`.
std::int32_t row_capacity(std::int32_t max_rows);

}  // namespace slip
