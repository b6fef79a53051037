// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cuda/device_shape.h"
#include "engine/cuda/row_places.h"
#include "engine/models/transformer.h"
#include "kernels/cuda/device_queue.h"

namespace slip {

// A step's inputs to the kernels besides weights and cache: tokens, positions, the slots that each row sees, and the
// rows of each attention tile. Its tables have fixed addresses, where captured passes find the current step. Threads:
// those of the queue.
class DeviceStep {
 public:
  struct Bounds {
    std::int32_t max_rows = 0, max_logit_rows = 0;  // already rounded by row_capacity()
    std::int32_t n_pages = 0;                       // pages of the cache
    std::int32_t max_sequences = 0;                 // of one step
  };
  // Error{kTooLarge}.
  DeviceStep(kernels::cuda::DeviceQueue& queue, const ModelConfig& config, const Bounds& bounds);

  // The step's requirements on its pass.
  StepNeeds needs(const StepInput& input);
  // Writes the tables, padded to the shape, and enqueues their copy to the device. `slot_begins`: the address of the
  // model in each weight slot that the sequences' weight indexes name; empty if there is one model. REQUIRES: a checked
  // step whose needs fit the shape; the previous copy is done.
  void put(const StepInput& input, const DevicePassShape& shape, std::span<const std::byte* const> slot_begins = {});

  const std::int32_t* tokens() const { return device_table<std::int32_t>(tables_.tokens); }
  const std::int32_t* positions() const { return device_table<std::int32_t>(tables_.positions); }
  const std::int32_t* logit_rows() const { return device_table<std::int32_t>(tables_.logit_rows); }
  // For each row of the pass, its row in the step; for each logit row of the pass, its index among the step's wanted
  // logits, −1: none.
  const std::int32_t* token_rows() const { return device_table<std::int32_t>(tables_.token_rows); }
  const std::int32_t* logit_places() const { return device_table<std::int32_t>(tables_.logit_places); }
  // The weights of each tile of rows, and of each tile of wanted logits.
  const std::byte* const* row_weights() const { return device_table<const std::byte*>(tables_.row_weights); }
  const std::byte* const* logit_row_weights() const {
    return device_table<const std::byte*>(tables_.logit_row_weights);
  }
  const kernels::cuda::AttentionTileRows* tiles() const {
    return device_table<kernels::cuda::AttentionTileRows>(tables_.tiles);
  }
  // The rows for layers whose attention sees the last `window` positions; 0: all.
  const kernels::cuda::DeviceRow* rows(std::int32_t window) const;
  const AttentionTiling& tiling() const { return tiling_; }

 private:
  // Offset of each table in bytes; the last three hold the lists that rows point to, one sequence after the other.
  struct Tables {
    std::size_t tokens = 0, positions = 0, token_rows = 0, logit_rows = 0, logit_places = 0, row_weights = 0,
                logit_row_weights = 0;
    std::size_t tiles = 0, rows = 0, pages = 0, ancestors = 0, visible = 0;
    std::size_t bytes = 0;
  };
  static Tables lay_out(const Bounds& bounds, std::size_t n_windows, std::size_t list_room);

  template <class T>
  T* host_table(std::size_t at) const {
    return reinterpret_cast<T*>(host_.get() + at);
  }
  template <class T>
  const T* device_table(std::size_t at) const {
    return reinterpret_cast<const T*>(device_.get() + at);
  }
  void place(const StepInput& input);
  void put_row_weights(const DevicePassShape& shape, std::span<const std::byte* const> slot_begins);
  void put_tiles(const StepInput& input, const DevicePassShape& shape);
  void put_rows(const StepInput& input, const DevicePassShape& shape);  // enqueues the copy of all tables
  void copy_in(std::size_t begin, std::size_t end);

  kernels::cuda::DeviceQueue& queue_;
  Bounds bounds_;
  std::size_t list_room_;  // entries of the table of pages, and of that of visible ranges
  AttentionTiling tiling_;
  std::vector<std::int32_t> windows_;  // the distinct windows of the model's layers; each has a table of rows
  Tables tables_;
  kernels::cuda::CopyMemory<std::byte> host_;
  kernels::cuda::DeviceMemory<std::byte> device_;
  // Of the current step.
  std::vector<std::uint16_t> row_weights_, logit_weights_;
  RowPlaces rows_, logits_;
};

}  // namespace slip
