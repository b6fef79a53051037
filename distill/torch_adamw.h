// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes LibTorch (about 7 s to compile): only for the trainer's own .cpp files.
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "distill/draft_trainer.h"
#include "distill/torch_draft.h"

namespace slip {

// AdamW (Loshchilov and Hutter, 2019) over a draft's parameters; decay spares the norms. Threads: one owner.
class TorchAdamW {
 public:
  explicit TorchAdamW(const std::vector<NamedTensor>& parameters);

  // √Σ g² over all parameters, in double; not finite when any gradient is not.
  static double gradient_norm(const std::vector<NamedTensor>& parameters);
  // One update with gradients scaled by `gradient_scale` (clipping); counts a step.
  void update(std::vector<NamedTensor>& parameters, const TrainerOptions& options, double gradient_scale);

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  std::vector<at::Tensor>& first_moments() { return first_; }
  std::vector<at::Tensor>& second_moments() { return second_; }

 private:
  std::int64_t steps_ = 0;
  std::vector<at::Tensor> first_, second_;  // per parameter, its shape, float32
};

}  // namespace slip
