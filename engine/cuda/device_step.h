// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cuda/device_shape.h"
#include "engine/cuda/row_places.h"
#include "engine/models/transformer.h"
#include "kernels/cuda/device_queue.h"

namespace slip {

// What the kernels read of a step besides weights and cache: tokens, positions, which slots each row sees, and how rows
// share out among tiles of attention. Its tables stand at addresses that never change, so that captured passes find the
// step of the moment there. Threads: those of the queue.
class DeviceStep {
 public:
  struct Bounds {
    std::int32_t max_rows = 0, max_logit_rows = 0;  // already rounded by row_capacity()
    std::int32_t n_pages = 0;                       // of the cache
  };
  // Error{kTooLarge}.
  DeviceStep(kernels::cuda::DeviceQueue& queue, const ModelConfig& config, const Bounds& bounds);

  // What a step needs of its pass.
  StepNeeds needs(const StepInput& input);
  // Writes the tables, filled up to the shape, and puts their copy on the queue. `slot_begins`: where the models begin
  // that the sequences' weight indexes name; none where there is one model. REQUIRES: a checked step whose needs are
  // the shape's; the queue has done the copy before.
  void put(const StepInput& input, const PassShape& shape, std::span<const std::byte* const> slot_begins = {});

  const std::int32_t* tokens() const { return device_table<std::int32_t>(tables_.tokens); }
  const std::int32_t* positions() const { return device_table<std::int32_t>(tables_.positions); }
  const std::int32_t* logit_rows() const { return device_table<std::int32_t>(tables_.logit_rows); }
  // Which row of the step a row of the pass is, and which of its wanted logits, −1: none.
  const std::int32_t* token_rows() const { return device_table<std::int32_t>(tables_.token_rows); }
  const std::int32_t* logit_places() const { return device_table<std::int32_t>(tables_.logit_places); }
  // Of each tile of rows, and of wanted logits.
  const std::byte* const* row_weights() const { return device_table<const std::byte*>(tables_.row_weights); }
  const std::byte* const* logit_row_weights() const {
    return device_table<const std::byte*>(tables_.logit_row_weights);
  }
  const kernels::cuda::AttentionTileRows* tiles() const {
    return device_table<kernels::cuda::AttentionTileRows>(tables_.tiles);
  }
  // Of layers whose attention sees the last `window` positions; 0: all.
  const kernels::cuda::DeviceRow* rows(std::int32_t window) const;
  const AttentionTiling& tiling() const { return tiling_; }

 private:
  // Where each table begins, in bytes; the last three hold what rows point to, one sequence behind the other.
  struct Tables {
    std::size_t tokens = 0, positions = 0, token_rows = 0, logit_rows = 0, logit_places = 0, row_weights = 0,
                logit_row_weights = 0;
    std::size_t tiles = 0, rows = 0, pages = 0, ancestors = 0, visible = 0;
    std::size_t bytes = 0;
  };
  static Tables lay_out(const Bounds& bounds, std::size_t n_windows);

  template <class T>
  T* host_table(std::size_t at) const {
    return reinterpret_cast<T*>(host_.get() + at);
  }
  template <class T>
  const T* device_table(std::size_t at) const {
    return reinterpret_cast<const T*>(device_.get() + at);
  }
  void place(const StepInput& input);
  void put_row_weights(const PassShape& shape, std::span<const std::byte* const> slot_begins);
  std::size_t put_rows(const StepInput& input, const PassShape& shape);  // the bytes that are used now
  void put_tiles(const StepInput& input, const PassShape& shape);

  kernels::cuda::DeviceQueue& queue_;
  Bounds bounds_;
  AttentionTiling tiling_;
  std::vector<std::int32_t> windows_;  // the different ones of the model's layers; each has a table of rows
  Tables tables_;
  kernels::cuda::CopyMemory<std::byte> host_;
  kernels::cuda::DeviceMemory<std::byte> device_;
  // Of the step at hand.
  std::vector<std::uint16_t> row_weights_, logit_weights_;
  RowPlaces rows_, logits_;
};

}  // namespace slip
