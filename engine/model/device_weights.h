// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "engine/model/transformer.h"
#include "kernels/cuda/device_queue.h"

namespace slip {

// One model's weights in device memory, in the order the device's products read them. A weight that the architecture
// has not is empty.
struct DeviceModel {
  struct Layer {
    kernels::cuda::Weight<float> attention_norm, ffn_norm;
    kernels::cuda::Weight<std::uint16_t> qkv, attention_out;
    kernels::cuda::Weight<std::uint16_t> gate_up;  // tiles of 16 gates and tiles of their ups in turn
    kernels::cuda::Weight<std::uint16_t> down;
    kernels::cuda::Weight<float> qkv_bias, attention_out_bias, gate_up_bias, down_bias;
    kernels::cuda::Weight<float> q_norm, k_norm;
  };
  std::vector<Layer> layers;
  kernels::cuda::Weight<std::uint16_t> embedding;  // [vocab, hidden]; empty: the head's matrix is the embedding
  kernels::cuda::Weight<std::uint16_t> lm_head;
  kernels::cuda::Weight<float> final_norm;
};

// The intermediate size, filled up with zeros to whole tiles.
std::int64_t device_ffn(const ModelConfig& config);

// Room for the weights of one shape, in one or two fixed homes. With two, what live() says is read on the device as the
// kernels run, so that graphs captured with it go on with another draft once set_live() has named its home.
// Threads: those of the queue.
class DeviceWeights {
 public:
  // Error{kTooLarge} when the device has no room. Nothing is loaded yet.
  DeviceWeights(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const ModelWeights& shape, int n_homes);

  // Whether load() takes them: the same shape, and tied as the first ones were.
  bool fits(const ModelWeights& weights) const;
  // Copies the weights to a home, rounded to bfloat16, and waits until they are there. REQUIRES: fits(), and no job on
  // its way reads that home.
  void load(const ModelWeights& weights, int home);
  // For jobs that are put later, replayed ones included.
  void set_live(int home);
  int live_home() const { return live_home_; }

  const DeviceModel& live() const { return live_; }  // of the home that is live when a kernel runs
  DeviceModel at(int home) const;                    // of that home, live or not
  const ModelConfig& config() const { return config_; }
  std::size_t bytes() const { return memory_.size(); }

 private:
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
