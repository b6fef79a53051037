// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes LibTorch (about 7 s to compile): only for the trainer's own .cpp files.
#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "distill/trainer/draft_trainer.h"
#include "distill/trainer/torch_adamw.h"
#include "distill/trainer/torch_draft.h"
#include "distill/trainer/torch_muon.h"

namespace slip {

// The optimizer of a draft's parameters: AdamW for all, or Muon for the layers' matrices and AdamW for embedding,
// output matrix and norms, as recommended by Muon's author. Threads: one owner.
class TorchOptimizer {
 public:
  // Shares the parameters, which must already be on their device.
  TorchOptimizer(const std::vector<NamedTensor>& parameters, const TrainerOptions& options);

  // One step from the parameters' gradients, scaled by `gradient_scale` (clipping), at `rate_factor` times the rates.
  void update(double gradient_scale, double rate_factor = 1);

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  // The complete state for resuming, in the order of the state file: AdamW's first moments, its second moments, Muon's
  // momenta, each in the parameters' order.
  std::vector<at::Tensor*> moments();
  std::size_t bytes() const;

 private:
  TrainerOptions options_;
  std::int64_t steps_ = 0;
  TorchAdamW adamw_;
  TorchMuon muon_;
};

}  // namespace slip
