// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "engine/cuda/device_model.h"
#include "engine/models/transformer.h"
#include "kernels/cuda/device_queue.h"

namespace slip {

// Whether the embedding and the head share one matrix.
inline bool is_tied(const ModelWeights& weights) {
  return weights.embedding.empty();
}

// Copies a weight in the device's order to `place`; `from` is valid during the call.
using PutWeight = std::function<void(void* place, const void* from, std::size_t bytes)>;
// Passes all weights of a model, rounded to bfloat16, to `put`. REQUIRES: places for its shape.
void pack_model(const ModelWeights& weights, const DeviceModel& places, const PutWeight& put);

// A model's weights in host memory, in the layout of a weight slot on the device. Loading them is one copy on the
// queue, for which the host need not wait. A draft version is packed where it is made, never on the engine thread.
// Immutable. Threads: any, also while another thread uses the queue.
class DeviceImage {
 public:
  // Error{kTooLarge} when the host has too little memory that the device can copy from.
  DeviceImage(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const ModelWeights& weights);

  std::span<const std::byte> bytes() const { return {memory_.get(), memory_.size()}; }
  const ModelConfig& config() const { return config_; }
  bool tied() const { return tied_; }

 private:
  std::shared_ptr<kernels::cuda::DeviceQueue> queue_;
  ModelConfig config_;
  bool tied_;
  kernels::cuda::CopyMemory<std::byte> memory_;
};

}  // namespace slip
