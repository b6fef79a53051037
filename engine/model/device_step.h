// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/device_shape.h"
#include "engine/model/transformer.h"
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
  StepNeeds needs(const StepInput& input) const;
  // Writes the tables, filled up to the shape, and puts their copy on the queue. REQUIRES: a checked step that
  // shape_of(needs(input)) gave the shape of; the queue has done the copy before.
  void put(const StepInput& input, const PassShape& shape);

  const std::int32_t* tokens() const { return device_table<std::int32_t>(tables_.tokens); }
  const std::int32_t* positions() const { return device_table<std::int32_t>(tables_.positions); }
  const std::int32_t* logit_rows() const { return device_table<std::int32_t>(tables_.logit_rows); }
  const kernels::cuda::AttentionTileRows* tiles() const {
    return device_table<kernels::cuda::AttentionTileRows>(tables_.tiles);
  }
  // Of layers whose attention sees the last `window` positions; 0: all.
  const kernels::cuda::DeviceRow* rows(std::int32_t window) const;
  const AttentionTiling& tiling() const { return tiling_; }

 private:
  // Where each table begins, in bytes; the last three hold what rows point to, one sequence behind the other.
  struct Tables {
    std::size_t tokens = 0, positions = 0, logit_rows = 0, tiles = 0, rows = 0, pages = 0, ancestors = 0, visible = 0;
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
  std::size_t put_rows(const StepInput& input, const PassShape& shape);  // the bytes that are used now
  void put_tiles(const StepInput& input, const PassShape& shape);

  kernels::cuda::DeviceQueue& queue_;
  Bounds bounds_;
  AttentionTiling tiling_;
  std::vector<std::int32_t> windows_;  // the different ones of the model's layers; each has a table of rows
  Tables tables_;
  kernels::cuda::CopyMemory<std::byte> host_;
  kernels::cuda::DeviceMemory<std::byte> device_;
};

}  // namespace slip
