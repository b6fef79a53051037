// SPDX-License-Identifier: Apache-2.0
#include "engine/model/device_weights.h"

#include <utility>

#include "common/error.h"

namespace slip {
namespace {

using kernels::cuda::DeviceQueue;
using kernels::cuda::Weight;

// Applies to every weight that is there.
template <class Action>
void for_each_weight(DeviceModel& model, const Action& action) {
  const auto some = [&](auto& weight) {
    if (!weight.empty()) action(weight);
  };
  for (DeviceModel::Layer& layer : model.layers) {
    for (Weight<float>* weight : {&layer.attention_norm, &layer.ffn_norm, &layer.qkv_bias, &layer.attention_out_bias,
                                  &layer.gate_up_bias, &layer.down_bias, &layer.q_norm, &layer.k_norm}) {
      some(*weight);
    }
    for (Weight<std::uint16_t>* weight : {&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.down}) some(*weight);
  }
  some(model.embedding);
  some(model.final_norm);
  some(model.lm_head);
}

}  // namespace

DeviceWeights::DeviceWeights(std::shared_ptr<DeviceQueue> queue, const ModelWeights& shape, int n_homes)
    : queue_(std::move(queue)),
      config_(shape.config),
      tied_(is_tied(shape)),
      home_bytes_(device_model_bytes(config_, tied_)),
      memory_(*queue_, home_bytes_ * static_cast<std::size_t>(n_homes)),
      live_index_(*queue_, 1),
      n_homes_(n_homes) {
  SLIP_CHECK(n_homes == 1 || n_homes == 2, "weights have one home or two");
  live_ = place_model(config_, tied_, memory_.get());
  if (n_homes == 1) return;
  for_each_weight(live_, [&](auto& weight) {
    weight.live = live_index_.get();
    weight.home_stride = static_cast<std::int64_t>(home_bytes_ / sizeof(*weight.data));
  });
  set_live(0);
}

bool DeviceWeights::fits(const ModelWeights& weights) const {
  return weights.config.same_shape(config_) && is_tied(weights) == tied_;
}

std::byte* DeviceWeights::memory_of(int home) const {
  SLIP_CHECK(home >= 0 && home < n_homes_, "a home that is not there");
  return memory_.get() + home_bytes_ * static_cast<std::size_t>(home);
}

DeviceModel DeviceWeights::at(int home) const {
  return place_model(config_, tied_, memory_of(home));
}

void DeviceWeights::load(const ModelWeights& weights, int home) {
  SLIP_CHECK(fits(weights), "a home takes weights of one shape");
  pack_model(weights, at(home), [&](void* place, const void* from, std::size_t bytes) {
    queue_->copy_in(place, from, bytes);
    queue_->wait();
  });
}

void DeviceWeights::load(const DeviceImage& image, int home) {
  SLIP_CHECK(image.config().same_shape(config_) && image.tied() == tied_, "a home takes weights of one shape");
  queue_->copy_in(memory_of(home), image.bytes().data(), image.bytes().size());
}

void DeviceWeights::set_live(int home) {
  SLIP_CHECK(home >= 0 && home < n_homes_, "a home that is not there");
  if (n_homes_ == 1) return;
  const std::int32_t index = home;
  queue_->copy_in(live_index_.get(), &index, sizeof index);
  queue_->wait();
  live_home_ = home;
}

}  // namespace slip
