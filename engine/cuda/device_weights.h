// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/cuda/device_image.h"

namespace slip {

// Room for the weights of models of one shape, each in a weight slot of its own that never moves. Which weight slot a
// row of a pass takes its weights from is read on the device (DeviceStep's tables), so that captured graphs go on with
// other weight slots. Threads: those of the queue.
class DeviceWeights {
 public:
  // With one weight slot, into which nothing is loaded yet. Error{kTooLarge} when the device has no room.
  DeviceWeights(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const ModelWeights& shape);

  // One more weight slot; its index. Error{kTooLarge}.
  int add_slot();
  // Whether load() takes them: the same shape, and tied as the first ones were.
  bool fits(const ModelWeights& weights) const;
  // Packs the weights and copies them to a weight slot, one after the other, and waits for each: for a model that
  // serves nothing yet and of which the host has no room for an image. REQUIRES: fits().
  void load(const ModelWeights& weights, int weight_slot);
  // Puts a copy of the image to a weight slot, behind the jobs that were put before. The image stays until wait().
  // REQUIRES: it fits as its weights do.
  void load(const DeviceImage& image, int weight_slot);

  const DeviceModel& model() const { return model_; }                             // in the first weight slot
  std::span<const std::byte* const> slot_begins() const { return slot_begins_; }  // what DeviceStep::put() takes
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
