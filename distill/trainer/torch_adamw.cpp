// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/torch_adamw.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <utility>

#include "kernels/vector_clones.h"

namespace slip {

namespace {

constexpr float kEpsilon = 1e-8F;

struct Rates {
  float beta1 = 0, beta2 = 0;
  float step_size = 0;           // learning rate over the first moment's bias correction
  float inverse_root_bias2 = 0;  // 1 / sqrt(bias correction of the second moment)
  float keep = 1;                // 1 − learning rate · weight decay
  float gradient_scale = 1;
};

struct Slots {
  float* weight = nullptr;
  const float* gradient = nullptr;
  float* first = nullptr;
  float* second = nullptr;
};

SLIP_VECTOR_CLONES void update_tensor(const Slots& slots, std::int64_t n, const Rates& rates) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = slots.gradient[i] * rates.gradient_scale;
    slots.first[i] = rates.beta1 * slots.first[i] + (1 - rates.beta1) * g;
    slots.second[i] = rates.beta2 * slots.second[i] + (1 - rates.beta2) * g * g;
    const float root = std::sqrt(slots.second[i]) * rates.inverse_root_bias2 + kEpsilon;
    slots.weight[i] = slots.weight[i] * rates.keep - rates.step_size * slots.first[i] / root;
  }
}

// The same update for tensors in device memory.
void update_on_device(const at::Tensor& weight, const at::Tensor& gradient, const at::Tensor& first,
                      const at::Tensor& second, const Rates& rates) {
  const at::Tensor g = gradient * rates.gradient_scale;
  first.mul_(rates.beta1).add_(g, 1 - rates.beta1);
  second.mul_(rates.beta2).addcmul_(g, g, 1 - rates.beta2);
  const at::Tensor root = second.sqrt().mul_(rates.inverse_root_bias2).add_(kEpsilon);
  weight.mul_(rates.keep).addcdiv_(first, root, -rates.step_size);
}

}  // namespace

TorchAdamW::TorchAdamW(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {
  for (const at::Tensor& parameter : parameters_) {
    first_.push_back(at::zeros_like(parameter.detach()));
    second_.push_back(at::zeros_like(parameter.detach()));
  }
}

void TorchAdamW::update(const AdamWRates& asked) {
  const at::NoGradGuard no_grad;
  const auto n = static_cast<double>(asked.step);
  Rates rates;
  rates.beta1 = static_cast<float>(asked.beta1);
  rates.beta2 = static_cast<float>(asked.beta2);
  rates.step_size = static_cast<float>(asked.learning_rate / (1 - std::pow(asked.beta1, n)));
  rates.inverse_root_bias2 = static_cast<float>(1 / std::sqrt(1 - std::pow(asked.beta2, n)));
  rates.gradient_scale = static_cast<float>(asked.gradient_scale);
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    at::Tensor& value = parameters_[p];
    if (!value.grad().defined()) continue;
    const at::Tensor gradient = value.grad().contiguous();
    rates.keep = value.dim() > 1 ? static_cast<float>(1 - asked.learning_rate * asked.weight_decay) : 1.0F;
    if (!value.is_cpu()) {
      update_on_device(value, gradient, first_[p], second_[p], rates);
      continue;
    }
    const Slots slots{value.data_ptr<float>(), gradient.data_ptr<float>(), first_[p].data_ptr<float>(),
                      second_[p].data_ptr<float>()};
    update_tensor(slots, value.numel(), rates);
  }
}

std::size_t TorchAdamW::bytes() const {
  std::size_t total = 0;
  for (const at::Tensor& moment : first_) total += 2 * moment.nbytes();
  return total;
}

}  // namespace slip
