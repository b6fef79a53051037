// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engine/model/device_image.h"

namespace slip {

// Room for the weights of one shape, in one or two fixed homes. With two, what live() says is read on the device as the
// kernels run, so that graphs captured with it go on with another draft once set_live() has named its home.
// Threads: those of the queue.
class DeviceWeights {
 public:
  // Error{kTooLarge} when the device has no room. Nothing is loaded yet.
  DeviceWeights(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const ModelWeights& shape, int n_homes);

  // Whether load() takes them: the same shape, and tied as the first ones were.
  bool fits(const ModelWeights& weights) const;
  // Packs the weights and copies them to a home, one after the other, and waits for each: for a model that serves
  // nothing yet and of which the host has no room for an image. REQUIRES: fits().
  void load(const ModelWeights& weights, int home);
  // Puts a copy of the image to a home, behind the jobs that were put before. The image stays until wait().
  // REQUIRES: it fits as its weights do.
  void load(const DeviceImage& image, int home);
  // For jobs that are put later, replayed ones included.
  void set_live(int home);
  int live_home() const { return live_home_; }

  const DeviceModel& live() const { return live_; }  // of the home that is live when a kernel runs
  DeviceModel at(int home) const;                    // of that home, live or not
  const ModelConfig& config() const { return config_; }
  std::size_t bytes() const { return memory_.size(); }

 private:
  std::byte* memory_of(int home) const;

  std::shared_ptr<kernels::cuda::DeviceQueue> queue_;
  ModelConfig config_;
  bool tied_;
  std::size_t home_bytes_;
  kernels::cuda::DeviceMemory<std::byte> memory_;  // [home][home_bytes_]
  kernels::cuda::DeviceMemory<std::int32_t> live_index_;
  int n_homes_, live_home_ = 0;
  DeviceModel live_;
};

}  // namespace slip
