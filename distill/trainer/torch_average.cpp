// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/torch_average.h"

#include <algorithm>

namespace slip {

TorchAverage::TorchAverage(const std::vector<NamedTensor>& parameters, double decay) : decay_(decay) {
  for (const NamedTensor& parameter : parameters) values_.push_back(parameter.value.detach().clone());
}

void TorchAverage::update(const std::vector<NamedTensor>& parameters, std::int64_t n_steps) {
  const at::NoGradGuard no_grad;
  const auto n = static_cast<double>(n_steps);
  const double share = 1 - std::min(decay_, n / (n + 9));
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    values_[p].lerp_(parameters[p].value.detach(), share);
  }
}

}  // namespace slip
