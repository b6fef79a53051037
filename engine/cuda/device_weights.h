// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/cuda/device_image.h"

namespace slip {

// Room for the weights of models of one shape, each in a home of its own that never moves. Which home a row of a pass
// takes its weights from is read on the device (DeviceStep's tables), so that captured graphs go on with other homes.
// Threads: those of the queue.
class DeviceWeights {
 public:
  // With one home, into which nothing is loaded yet. Error{kTooLarge} when the device has no room.
  DeviceWeights(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const ModelWeights& shape);

  // One more home; its index. Error{kTooLarge}.
  int add_home();
  // Whether load() takes them: the same shape, and tied as the first ones were.
  bool fits(const ModelWeights& weights) const;
  // Packs the weights and copies them to a home, one after the other, and waits for each: for a model that serves
  // nothing yet and of which the host has no room for an image. REQUIRES: fits().
  void load(const ModelWeights& weights, int home);
  // Puts a copy of the image to a home, behind the jobs that were put before. The image stays until wait().
  // REQUIRES: it fits as its weights do.
  void load(const DeviceImage& image, int home);

  const DeviceModel& model() const { return model_; }                       // in the first home
  std::span<const std::byte* const> homes() const { return home_begins_; }  // what DeviceStep::put() takes
  const ModelConfig& config() const { return config_; }
  std::size_t bytes() const { return home_bytes_ * homes_.size(); }

 private:
  std::byte* memory_of(int home) const;

  std::shared_ptr<kernels::cuda::DeviceQueue> queue_;
  ModelConfig config_;
  bool tied_;
  std::size_t home_bytes_;
  std::vector<kernels::cuda::DeviceMemory<std::byte>> homes_;
  std::vector<const std::byte*> home_begins_;  // [n_homes]
  DeviceModel model_;
};

}  // namespace slip
