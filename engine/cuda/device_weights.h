// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/cuda/device_image.h"

namespace slip {

// The weight slots for models of one shape; a slot never moves. Kernels read the weight slot of each row from tables on
// the device (DeviceStep), so captured graphs work for all weight slots. Threads: those of the queue.
class DeviceWeights {
 public:
  // Has one weight slot, not loaded yet. Error{kTooLarge} when the device has no room.
  DeviceWeights(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const ModelWeights& shape);

  // Adds a weight slot; returns its index. Error{kTooLarge}.
  int add_slot();
  // Whether load() accepts them: the same shape, and tied as the first ones were.
  bool fits(const ModelWeights& weights) const;
  // Packs the weights and copies them to a weight slot, one at a time, waiting for each: for a model that is not
  // serving yet, and too large for an image on the host. REQUIRES: fits().
  void load(const ModelWeights& weights, int weight_slot);
  // Enqueues a copy of the image to a weight slot, after the jobs before it. The image must live until wait().
  // REQUIRES: its weights fit.
  void load(const DeviceImage& image, int weight_slot);

  // The addresses in the first weight slot.
  const DeviceModel& model() const { return model_; }
  std::span<const std::byte* const> slot_begins() const { return slot_begins_; }  // for DeviceStep::put()
  const ModelConfig& config() const { return config_; }
  std::size_t bytes() const { return slot_bytes_ * slots_.size(); }

 private:
  std::byte* memory_of(int weight_slot) const;

  std::shared_ptr<kernels::cuda::DeviceQueue> queue_;
  ModelConfig config_;
  bool tied_;
  std::size_t slot_bytes_;
  std::vector<kernels::cuda::DeviceMemory<std::byte>> slots_;
  std::vector<const std::byte*> slot_begins_;  // [n_slots]
  DeviceModel model_;
};

}  // namespace slip
