// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes LibTorch (about 7 s to compile): only for the trainer's own .cpp files.
#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slip {

struct AdamWRates {
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.95;
  double weight_decay = 0;    // not applied to vectors (norm weights)
  double gradient_scale = 1;  // clipping
  std::int64_t step = 1;      // counted from 1, for the bias corrections
};

// AdamW (Loshchilov and Hutter, 2019) over some parameters. Threads: one owner.
class TorchAdamW {
 public:
  // The parameters are float32, shared with the caller: update() reads their gradients and writes them.
  explicit TorchAdamW(std::vector<at::Tensor> parameters);

  // One step. A parameter without a gradient is left alone.
  void update(const AdamWRates& rates);

  std::vector<at::Tensor>& first_moments() { return first_; }
  std::vector<at::Tensor>& second_moments() { return second_; }
  std::size_t bytes() const;  // of the moments

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> first_, second_;  // one per parameter, with its shape
};

}  // namespace slip
