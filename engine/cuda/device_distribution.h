// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/sampling/distribution.h"
#include "kernels/cuda/distribution.cuh"

namespace slip {

// Whether a device's jobs know all that a request asks of its distribution; a grammar's masks are the host's.
inline bool has_distribution_on_device(const SamplingParams& sampling) {
  return sampling.grammar == nullptr;
}

// What a request asks of its logits, after its logits processors.
inline kernels::cuda::Transform transform_of(const SamplingParams& sampling) {
  return {sampling.temperature, sampling.min_p, sampling.top_p, sampling.top_k};
}

}  // namespace slip
