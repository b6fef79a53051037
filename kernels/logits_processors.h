// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device_code.h"

namespace slip::kernels {

// The penalties of SamplingParams; engine/sampling/distribution.h defines them.
struct Penalties {
  float repetition = 1, presence = 0, frequency = 0;
};

// Token counts are counts in the answer; this value marks a token that occurs in the prompt only.
inline constexpr std::int32_t kInPromptOnly = -1;
SLIP_DEVICE std::int32_t counted_again(std::int32_t times, std::int32_t more) {
  return (times > 0 ? times : 0) + more;
}

// The penalized logit of a token with count `times`. REQUIRES: times != 0.
SLIP_DEVICE float penalise(float logit, const Penalties& penalties, std::int32_t times) {
  const float repeated = logit > 0 ? logit / penalties.repetition : logit * penalties.repetition;
  if (times == kInPromptOnly) return repeated;
  return repeated - (penalties.frequency * static_cast<float>(times) + penalties.presence);
}

}  // namespace slip::kernels
