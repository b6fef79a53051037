// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/sampling/distribution.h"
#include "kernels/cuda/distribution.cuh"

namespace slip {

// Whether a device can compute a request's distribution; grammar masks are applied on the host only.
inline bool has_distribution_on_device(const SamplingParams& sampling) {
  return sampling.grammar == nullptr;
}

// The request's transform of the logits after its logits processors.
inline kernels::cuda::Transform transform_of(const SamplingParams& sampling) {
  return {sampling.temperature, sampling.min_p, sampling.top_p, sampling.top_k};
}

}  // namespace slip
