// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes LibTorch (about 7 s to compile): only for the trainer's own .cpp files.
#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "distill/loss.h"
#include "distill/torch_device.h"
#include "engine/speculate/observation.h"

namespace slip {

struct RowSums {
  double loss = 0;
  std::int64_t rows = 0, greedy_hits = 0;
};

// The product with the vocabulary and the loss behind it, by hand and in pieces: [n, vocab] of logits and as much of
// gradient would not fit the cache, nor a device for long rows. Threads: one owner.
class TorchHead {
 public:
  // REQUIRES: a turn of `device`.
  TorchHead(std::int64_t vocab, const LossOptions& loss, const TorchDevice& device);

  // hidden [n, hidden] → losses; with `gradient` [n, hidden] also the gradient with respect to `hidden`, and that with
  // respect to `matrix` [vocab, hidden] added to `matrix_gradient`. `weight` scales gradients. A target without ids
  // adds nothing and is not counted. REQUIRES: a turn of the device, and no recording of gradients.
  struct Backward {
    at::Tensor gradient, matrix_gradient;
  };
  RowSums pass(const at::Tensor& hidden, const at::Tensor& matrix, std::span<const TopK* const> targets, double weight,
               const Backward* backward);

  std::size_t bytes() const { return (slopes_.is_same(logits_) ? 1 : 2) * logits_.nbytes(); }

 private:
  RowSums losses(const at::Tensor& logits, std::span<const TopK* const> targets, double weight,
                 const at::Tensor& slope);
  RowSums losses_on_device(const at::Tensor& logits, std::span<const TopK* const> targets, double weight,
                           const at::Tensor& slope);

  LossOptions loss_;
  TorchDevice device_;
  at::Tensor logits_, slopes_;  // [rows of a piece, vocab], reused; one tensor on a CPU: slopes replace logits
};

}  // namespace slip
