// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes LibTorch (about 7 s to compile): only for the trainer's own .cpp files.
#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "checkpoints/model_config.h"
#include "distill/trainer/draft_trainer.h"
#include "distill/trainer/loss.h"
#include "distill/trainer/torch_device.h"
#include "engine/speculative/observation.h"

namespace slip {

struct RowSums {
  double loss = 0;
  std::int64_t rows = 0, greedy_hits = 0;
};

// The product with the vocabulary and the loss behind it, by hand and in pieces: [n, vocab] of logits and as much of
// gradient would not fit the cache, nor a device for long rows. In bfloat16 all pieces have as many rows, the last one
// filled up with zeros: LibTorch compiles a kernel for each number of rows that it meets. Threads: one owner.
class TorchHead {
 public:
  // Takes loss and products from `options`. REQUIRES: a turn of `device`.
  TorchHead(const ModelConfig& draft, const TrainerOptions& options, const TorchDevice& device);

  // hidden [n, hidden] → losses; with `gradient` [n, hidden] also the gradient with respect to `hidden`, and that with
  // respect to `matrix` [vocab, hidden] added to `matrix_gradient`. `weight` scales gradients. A target without ids
  // adds nothing and is not counted. REQUIRES: a turn of the device, and no recording of gradients.
  struct Backward {
    at::Tensor gradient, matrix_gradient;
  };
  RowSums pass(const at::Tensor& hidden, const at::Tensor& matrix, std::span<const TopK* const> targets, double weight,
               const Backward* backward);

  std::size_t bytes() const;

 private:
  // The three products of a piece: what multiplies, and into what.
  struct Piece {
    at::Tensor hidden, gradient;  // [n, hidden]
    at::Tensor logits, slopes;    // [n, vocab]
  };
  // REQUIRES: every target has ids.
  RowSums pass_all(const at::Tensor& hidden, const at::Tensor& matrix, std::span<const TopK* const> targets,
                   double weight, const Backward* backward);
  void multiply(const Piece& piece, const at::Tensor& matrix);
  void multiply_back(const Piece& piece, const at::Tensor& matrix, at::Tensor matrix_gradient);
  RowSums losses(const at::Tensor& logits, std::span<const TopK* const> targets, double weight,
                 const at::Tensor& slope);
  RowSums losses_on_device(const at::Tensor& logits, std::span<const TopK* const> targets, double weight,
                           const at::Tensor& slope);

  LossOptions loss_;
  TorchDevice device_;
  at::Tensor logits_, slopes_;  // [rows of a piece, vocab], reused; one tensor on a CPU: slopes replace logits
  struct Rounded {
    at::Tensor hidden, gradient, logits, matrix, matrix_gradient;
  };
  std::optional<Rounded> rounded_;  // what bfloat16 products take and give
};

}  // namespace slip
