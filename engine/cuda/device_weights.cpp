// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_weights.h"

#include <utility>

#include "common/error.h"

namespace slip {

using kernels::cuda::DeviceQueue;

DeviceWeights::DeviceWeights(std::shared_ptr<DeviceQueue> queue, const ModelWeights& shape)
    : queue_(std::move(queue)),
      config_(shape.config),
      tied_(is_tied(shape)),
      home_bytes_(device_model_bytes(config_, tied_)) {
  model_ = place_model(config_, tied_, memory_of(add_home()));
}

int DeviceWeights::add_home() {
  homes_.emplace_back(*queue_, home_bytes_);
  home_begins_.push_back(homes_.back().get());
  return static_cast<int>(homes_.size()) - 1;
}

bool DeviceWeights::fits(const ModelWeights& weights) const {
  return weights.config.same_shape(config_) && is_tied(weights) == tied_;
}

std::byte* DeviceWeights::memory_of(int home) const {
  SLIP_CHECK(home >= 0 && home < static_cast<int>(homes_.size()), "a home that is not there");
  return homes_[static_cast<std::size_t>(home)].get();
}

void DeviceWeights::load(const ModelWeights& weights, int home) {
  SLIP_CHECK(fits(weights), "a home takes weights of one shape");
  pack_model(weights, place_model(config_, tied_, memory_of(home)),
             [&](void* place, const void* from, std::size_t bytes) {
               queue_->copy_in(place, from, bytes);
               queue_->wait();
             });
}

void DeviceWeights::load(const DeviceImage& image, int home) {
  SLIP_CHECK(image.config().same_shape(config_) && image.tied() == tied_, "a home takes weights of one shape");
  queue_->copy_in(memory_of(home), image.bytes().data(), image.bytes().size());
}

}  // namespace slip
