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
      slot_bytes_(device_model_bytes(config_, tied_)) {
  model_ = place_model(config_, tied_, memory_of(add_slot()));
}

int DeviceWeights::add_slot() {
  slots_.emplace_back(*queue_, slot_bytes_);
  slot_begins_.push_back(slots_.back().get());
  return static_cast<int>(slots_.size()) - 1;
}

bool DeviceWeights::fits(const ModelWeights& weights) const {
  return weights.config.same_shape(config_) && is_tied(weights) == tied_;
}

std::byte* DeviceWeights::memory_of(int weight_slot) const {
  SLIP_CHECK(weight_slot >= 0 && weight_slot < static_cast<int>(slots_.size()), "a weight slot that is not there");
  return slots_[static_cast<std::size_t>(weight_slot)].get();
}

void DeviceWeights::load(const ModelWeights& weights, int weight_slot) {
  SLIP_CHECK(fits(weights), "a weight slot takes weights of one shape");
  pack_model(weights, place_model(config_, tied_, memory_of(weight_slot)),
             [&](void* place, const void* from, std::size_t bytes) {
               queue_->copy_in(place, from, bytes);
               queue_->wait();
             });
}

void DeviceWeights::load(const DeviceImage& image, int weight_slot) {
  SLIP_CHECK(image.config().same_shape(config_) && image.tied() == tied_, "a weight slot takes weights of one shape");
  queue_->copy_in(memory_of(weight_slot), image.bytes().data(), image.bytes().size());
}

}  // namespace slip
