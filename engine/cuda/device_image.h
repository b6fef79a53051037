// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "engine/cuda/device_model.h"
#include "engine/models/transformer.h"
#include "kernels/cuda/device_queue.h"

namespace slip {

// Whether the rows of the head's matrix are the embedding.
inline bool is_tied(const ModelWeights& weights) {
  return weights.embedding.empty();
}

// Takes a weight in the device's order to its place; `from` is good for the call.
using PutWeight = std::function<void(void* place, const void* from, std::size_t bytes)>;
// Puts all weights of a model, rounded to bfloat16, one after the other. REQUIRES: places for its shape.
void pack_model(const ModelWeights& weights, const DeviceModel& places, const PutWeight& put);

// A model's weights in host memory just as they are to stand in a weight slot on the device, so that to bring them
// there is one copy in the queue, which the host need not wait for. Whoever makes a draft's version packs it, so that
// the engine's thread never does. Immutable. Threads: any, also beside the one that uses the queue.
class DeviceImage {
 public:
  // Error{kTooLarge} when the host has no memory for it that the device can copy from.
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
