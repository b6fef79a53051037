// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device_code.h"

namespace slip::kernels {

// Of SamplingParams (engine/sampling/distribution.h), where their meaning stands.
struct Penalties {
  float repetition = 1, presence = 0, frequency = 0;
};

// How often a token stands in the answer, and this where it stands in the prompt alone.
inline constexpr std::int32_t kInPromptOnly = -1;
SLIP_DEVICE std::int32_t counted_again(std::int32_t times, std::int32_t more) {
  return (times > 0 ? times : 0) + more;
}

// The logit of a token whose count is `times`, which is not 0.
SLIP_DEVICE float penalise(float logit, const Penalties& penalties, std::int32_t times) {
  const float repeated = logit > 0 ? logit / penalties.repetition : logit * penalties.repetition;
  if (times == kInPromptOnly) return repeated;
  return repeated - (penalties.frequency * static_cast<float>(times) + penalties.presence);
}

}  // namespace slip::kernels
