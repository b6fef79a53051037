// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/torch_optimizer.h"

#include "distill/trainer/learning_rate.h"
#include "distill/trainer/torch_device.h"

namespace slip {
namespace {

// Whether a parameter is a layer's matrix, for Muon. The embedding and the output matrix are not: their rows are tokens
// of very unequal frequency.
bool is_layer_matrix(const NamedTensor& parameter) {
  return parameter.value.dim() == 2 && parameter.name.starts_with("model.layers.");
}

std::vector<at::Tensor> choose(const std::vector<NamedTensor>& parameters, OptimizerKind optimizer, bool for_muon) {
  std::vector<at::Tensor> chosen;
  for (const NamedTensor& parameter : parameters) {
    const bool muon = optimizer == OptimizerKind::kMuon && is_layer_matrix(parameter);
    if (muon == for_muon) chosen.push_back(parameter.value);
  }
  return chosen;
}

}  // namespace

TorchOptimizer::TorchOptimizer(const std::vector<NamedTensor>& parameters, const TrainerOptions& options)
    : options_(options),
      adamw_(choose(parameters, options.optimizer, /*for_muon=*/false)),
      muon_(choose(parameters, options.optimizer, /*for_muon=*/true), torch_dtype(options.products)) {}

void TorchOptimizer::update(double gradient_scale, double rate_factor) {
  const double schedule = rate_factor * learning_rate_factor(options_, steps_);
  ++steps_;
  AdamWRates adamw;
  adamw.learning_rate = schedule * options_.learning_rate;
  adamw.beta1 = options_.beta1;
  adamw.beta2 = options_.beta2;
  adamw.weight_decay = options_.weight_decay;
  adamw.gradient_scale = gradient_scale;
  adamw.step = steps_;
  adamw_.update(adamw);
  MuonRates muon;
  muon.learning_rate = schedule * options_.matrix_learning_rate;
  muon.keep = 1 - muon.learning_rate * options_.weight_decay;
  muon.gradient_scale = gradient_scale;
  muon_.update(muon);
}

std::vector<at::Tensor*> TorchOptimizer::moments() {
  std::vector<at::Tensor*> all;
  for (at::Tensor& moment : adamw_.first_moments()) all.push_back(&moment);
  for (at::Tensor& moment : adamw_.second_moments()) all.push_back(&moment);
  for (at::Tensor& momentum : muon_.momenta()) all.push_back(&momentum);
  return all;
}

std::size_t TorchOptimizer::bytes() const {
  return adamw_.bytes() + muon_.bytes();
}

}  // namespace slip
