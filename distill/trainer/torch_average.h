// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes LibTorch (about 7 s to compile): only for the trainer's own .cpp files.
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "distill/trainer/torch_draft.h"

namespace slip {

// The exponential moving average of a draft's weights over its optimizer steps (Polyak and Juditsky, 1992). Online
// learning does not decay its learning rate, and the average removes the noise that a falling rate would remove.
// Threads: one owner.
class TorchAverage {
 public:
  // decay in [0, 1); 0 keeps the last weights.
  TorchAverage(const std::vector<NamedTensor>& parameters, double decay);

  // Adds the weights after optimizer step `n_steps`, counted from 1. The decay rises to its final value as min(decay, n
  // / (n + 9)), so that the initial weights fade quickly.
  void update(const std::vector<NamedTensor>& parameters, std::int64_t n_steps);
  std::vector<at::Tensor>& values() { return values_; }  // one per parameter, with its shape, float32

 private:
  double decay_;
  std::vector<at::Tensor> values_;
};

}  // namespace slip
