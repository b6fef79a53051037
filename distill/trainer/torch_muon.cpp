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

bool is_tall(const at::Tensor& matrix) {
  return matrix.size(0) > matrix.size(1);
}

// The matrix or its transpose, whichever has no more rows than columns.
at::Tensor wide(const at::Tensor& matrix) {
  return is_tall(matrix) ? matrix.t() : matrix;
}

}  // namespace

TorchMuon::TorchMuon(std::vector<at::Tensor> matrices, at::ScalarType iterates) : matrices_(std::move(matrices)) {
  for (std::size_t m = 0; m < matrices_.size(); ++m) {
    momenta_.push_back(at::zeros_like(matrices_[m].detach()));
    const auto shape = wide(matrices_[m]).sizes().vec();
    const auto of_shape = [&](const Group& group) { return wide(matrices_[group.members[0]]).sizes() == shape; };
    auto group = std::find_if(groups_.begin(), groups_.end(), of_shape);
    if (group == groups_.end()) group = groups_.emplace(groups_.end());
    group->members.push_back(m);
  }
  for (Group& group : groups_) {
    const auto n = static_cast<std::int64_t>(group.members.size());
    const at::Tensor shape = wide(momenta_[group.members[0]]);
    const std::int64_t rows = shape.size(0), columns = shape.size(1);
    const auto options = shape.options(), rounded = options.dtype(iterates);
    group.update = at::empty({n, rows, columns}, options);
    group.x = at::empty({n, rows, columns}, rounded);
    group.next = at::empty_like(group.x);
    group.gram = at::empty({n, rows, rows}, rounded);
    group.polynomial = at::empty_like(group.gram);
  }
}

// X ← a X + (b A + c A²) X with A = X Xᵀ, from X = update / |update|, for each matrix of the group.
at::Tensor TorchMuon::orthogonalize(Group& group) {
  at::Tensor x = group.x, next = group.next;
  x.copy_(group.update.div_(at::norm(group.update, 2, {1, 2}, /*keepdim=*/true).add_(kEpsilon)));
  for (int i = 0; i < kIterations; ++i) {
    at::bmm_out(group.gram, x, x.transpose(1, 2));
    at::baddbmm_out(group.polynomial, group.gram, group.gram, group.gram, kCubic, kQuintic);
    at::baddbmm_out(next, x, group.polynomial, x, kLinear, 1.0);
    std::swap(x, next);
  }
  return x;
}

void TorchMuon::update(const MuonRates& rates) {
  const at::NoGradGuard no_grad;
  const double share = (1 - kMomentum) * rates.gradient_scale;
  for (Group& group : groups_) {
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      const std::size_t m = group.members[i];
      const at::Tensor& gradient = matrices_[m].grad();
      const at::Tensor update = group.update[static_cast<std::int64_t>(i)];
      if (!gradient.defined()) {
        update.zero_();
        continue;
      }
      momenta_[m].mul_(kMomentum).add_(gradient, share);
      update.copy_(wide(momenta_[m])).mul_(kMomentum).add_(wide(gradient), share);
    }
    const at::Tensor orthogonal = orthogonalize(group);
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      at::Tensor& matrix = matrices_[group.members[i]];
      if (!matrix.grad().defined()) continue;
      const auto rows = static_cast<double>(matrix.size(0)), columns = static_cast<double>(matrix.size(1));
      const double rate = rates.learning_rate * std::sqrt(std::max(1.0, rows / columns));
      const at::Tensor step = orthogonal[static_cast<std::int64_t>(i)];
      matrix.mul_(rates.keep).add_(is_tall(matrix) ? step.t() : step, -rate);
    }
  }
}

std::size_t TorchMuon::bytes() const {
  std::size_t total = 0;
  for (const at::Tensor& momentum : momenta_) total += momentum.nbytes();
  for (const Group& group : groups_) {
    for (const at::Tensor* scratch : {&group.update, &group.x, &group.next, &group.gram, &group.polynomial}) {
      total += scratch->nbytes();
    }
  }
  return total;
}

}  // namespace slip
