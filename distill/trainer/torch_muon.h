// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes LibTorch (about 7 s to compile): only for the trainer's own .cpp files.
#include <ATen/ATen.h>

#include <cstddef>
#include <vector>

namespace slip {

struct MuonRates {
  double learning_rate = 0;
  double keep = 1;            // factor of the weights before the update: 1 − learning rate · weight decay
  double gradient_scale = 1;  // clipping
};

// The Muon optimizer (Jordan et al., 2024, kellerjordan.github.io/posts/muon) for matrices: momentum, then
// Newton–Schulz brings the update's singular values near 1. Same arithmetic as torch.optim.Muon with adjust_lr_fn
// "original".
// Threads: one owner.
class TorchMuon {
 public:
  static constexpr double kMomentum = 0.95;  // Nesterov's form
  static constexpr int kIterations = 5;      // of Newton–Schulz

  // The matrices are [rows, columns] float32, shared with the caller: update() reads their gradients and writes them.
  // `iterates`: dtype of Newton–Schulz only, which tolerates rounding: at::kFloat, or at::kBFloat16 as in
  // torch.optim.Muon.
  explicit TorchMuon(std::vector<at::Tensor> matrices, at::ScalarType iterates = at::kFloat);

  // One step: momentum ← lerp(momentum, gradient); weight ← keep · weight − rate · √max(1, rows/columns) · orthogonal.
  // A matrix without a gradient is left alone. REQUIRES: finite gradients.
  void update(const MuonRates& rates);

  std::vector<at::Tensor>& momenta() { return momenta_; }  // one per matrix, with its shape
  std::size_t bytes() const;                               // size of momenta and scratch

 private:
  // Matrices of one shape, whose updates are made together: their products are small, and one at a time would cost more
  // to begin than to do. Scratch is [n, rows, columns], with no more rows than columns, or [n, rows, rows].
  struct Group {
    std::vector<std::size_t> members;
    at::Tensor update, x, next, gram, polynomial;
  };
  static at::Tensor orthogonalize(Group& group);

  std::vector<at::Tensor> matrices_, momenta_;
  std::vector<Group> groups_;
};

}  // namespace slip
