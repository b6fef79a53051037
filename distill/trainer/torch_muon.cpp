// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/torch_muon.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace slip {
namespace {

// The quintic's coefficients: the steepest slope at 0 for which five iterations end within [0.7, 1.2] (Jordan, 2024).
constexpr double kLinear = 3.4445, kCubic = -4.7750, kQuintic = 2.0315;
constexpr double kEpsilon = 1e-7;  // added to the norm, so that a zero gradient gives a zero update

// The first rows·columns values of a flat scratch tensor as a matrix.
at::Tensor matrix_of(const at::Tensor& scratch, std::int64_t rows, std::int64_t columns) {
  return scratch.narrow(0, 0, rows * columns).view({rows, columns});
}

}  // namespace

TorchMuon::TorchMuon(std::vector<at::Tensor> matrices, at::ScalarType iterates) : matrices_(std::move(matrices)) {
  std::int64_t largest = 0, smallest_side = 0;
  for (const at::Tensor& matrix : matrices_) {
    momenta_.push_back(at::zeros_like(matrix.detach()));
    largest = std::max(largest, matrix.numel());
    smallest_side = std::max(smallest_side, std::min(matrix.size(0), matrix.size(1)));
  }
  if (matrices_.empty()) return;
  const auto options = momenta_.front().options();
  scratch_[0] = at::empty({largest}, options);
  for (int i = 1; i < 3; ++i) scratch_[i] = at::empty({largest}, options.dtype(iterates));
  for (int i = 3; i < 5; ++i) scratch_[i] = at::empty({smallest_side * smallest_side}, options.dtype(iterates));
}

// X ← a X + (b A + c A²) X with A = X Xᵀ, from X = update / |update|. `update` has no more rows than columns.
at::Tensor TorchMuon::orthogonalize(const at::Tensor& update) {
  const std::int64_t rows = update.size(0), columns = update.size(1);
  at::Tensor x = matrix_of(scratch_[1], rows, columns), next = matrix_of(scratch_[2], rows, columns);
  at::Tensor gram = matrix_of(scratch_[3], rows, rows), polynomial = matrix_of(scratch_[4], rows, rows);
  x.copy_(update.div_(at::norm(update).add_(kEpsilon)));
  for (int i = 0; i < kIterations; ++i) {
    at::mm_out(gram, x, x.t());
    at::addmm_out(polynomial, gram, gram, gram, kCubic, kQuintic);
    at::addmm_out(next, x, polynomial, x, kLinear, 1.0);
    std::swap(x, next);
  }
  return x;
}

void TorchMuon::update(const MuonRates& rates) {
  const at::NoGradGuard no_grad;
  for (std::size_t m = 0; m < matrices_.size(); ++m) {
    at::Tensor& matrix = matrices_[m];
    if (!matrix.grad().defined()) continue;
    const std::int64_t rows = matrix.size(0), columns = matrix.size(1);
    momenta_[m].mul_(kMomentum).add_(matrix.grad(), (1 - kMomentum) * rates.gradient_scale);
    const bool tall = rows > columns;
    const at::Tensor update = matrix_of(scratch_[0], std::min(rows, columns), std::max(rows, columns));
    update.copy_(tall ? momenta_[m].t() : momenta_[m]);
    update.mul_(kMomentum).add_(tall ? matrix.grad().t() : matrix.grad(), (1 - kMomentum) * rates.gradient_scale);
    const at::Tensor orthogonal = orthogonalize(update);
    const double shape = std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
    matrix.mul_(rates.keep).add_(tall ? orthogonal.t() : orthogonal, -rates.learning_rate * shape);
  }
}

std::size_t TorchMuon::bytes() const {
  std::size_t total = 0;
  for (const at::Tensor& momentum : momenta_) total += momentum.nbytes();
  for (const at::Tensor& scratch : scratch_) total += scratch.defined() ? scratch.nbytes() : 0;
  return total;
}

}  // namespace slip
