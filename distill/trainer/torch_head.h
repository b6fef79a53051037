// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes LibTorch (about 7 s to compile): only for the trainer's own .cpp files.
#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "checkpoints/model_config.h"
#include "distill/trainer/draft_trainer.h"
#include "distill/trainer/loss.h"
#include "distill/trainer/pause_point.h"
#include "distill/trainer/torch_device.h"
#include "engine/speculative/observation.h"

namespace slip {

struct RowSums {
  double loss = 0;
  std::int64_t rows = 0, greedy_hits = 0;
};

// The product with the vocabulary and the loss, computed by hand and in pieces: all logits [n, vocab] and their
// gradients would not fit into the cache, nor onto a device for long inputs. In bfloat16 the last piece is padded with
// zeros to one of a few numbers of rows, since LibTorch compiles a kernel for each. Threads: one owner.
class TorchHead {
 public:
  // Takes loss and products from `options`. REQUIRES: a TorchDevice::Turn of `device` is alive.
  TorchHead(const ModelConfig& draft, const TrainerOptions& options, const TorchDevice& device);

  // Computes the losses of hidden [n, hidden]. With `backward`, also writes the gradient with respect to `hidden` to
  // `gradient` [n, hidden], and adds that with respect to `matrix` [vocab, hidden] to `matrix_gradient`. `weight`
  // scales gradients. A target without ids adds nothing and is not counted. `pause` is called between products.
  // REQUIRES: a TorchDevice::Turn of the device is alive, and gradient recording is off.
  struct Backward {
    at::Tensor gradient, matrix_gradient;
  };
  RowSums pass(const at::Tensor& hidden, const at::Tensor& matrix, std::span<const TopK* const> targets, double weight,
               const Backward* backward, const PausePoint& pause = {});

  std::size_t bytes() const;

 private:
  // The operands and results of a piece's three products.
  struct Piece {
    at::Tensor hidden, gradient;  // [n, hidden]
    at::Tensor logits, slopes;    // [n, vocab]; with bfloat16 products one tensor with the rows that pad it
  };
  // REQUIRES: every target has ids.
  RowSums pass_all(const at::Tensor& hidden, const at::Tensor& matrix, std::span<const TopK* const> targets,
                   double weight, const Backward* backward, const PausePoint& pause);
  void multiply(const Piece& piece, const at::Tensor& matrix);
  void multiply_back(const Piece& piece, const at::Tensor& matrix, const at::Tensor& matrix_gradient,
                     const PausePoint& pause);
  RowSums losses(const Piece& piece, std::span<const TopK* const> targets, double weight);
  void add_loss(float* row, const TopK& target, double weight, RowSums& sums) const;
  RowSums losses_on_device(const at::Tensor& logits, std::span<const TopK* const> targets, double weight,
                           const at::Tensor& slope);

  LossOptions loss_;
  TorchDevice device_;
  std::int64_t vocab_, piece_rows_;
  at::Tensor logits_, slopes_;  // [piece_rows_, vocab], reused; on a CPU one tensor: slopes overwrite logits
  // Operands and results of bfloat16 products. Logits and slopes are float32 one row at a time: whole pieces of them
  // were half of a step's memory traffic.
  struct Rounded {
    at::Tensor hidden, gradient, matrix, matrix_gradient;
    std::vector<float> row;  // [vocab]
  };
  std::optional<Rounded> rounded_;
};

}  // namespace slip
