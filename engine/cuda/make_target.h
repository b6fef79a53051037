// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engine/speculative/target.h"
#include "kernels/cuda/device_queue.h"
#include "kernels/thread_pool.h"

namespace slip {

struct WorkerSize {
  std::int32_t max_rows = 0, max_logit_rows = 0;
  std::int32_t n_pages = 0;
};

// Makes the target, passes and verification, on `device`; null: on the CPU. Error{kTooLarge} when there is no memory
// for it.
Target make_target(const std::shared_ptr<kernels::cuda::DeviceQueue>& device,
                   std::shared_ptr<const ModelWeights> weights, const WorkerSize& size, kernels::ThreadPool& pool);

}  // namespace slip
