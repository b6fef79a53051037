// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/make_target.h"

#include <utility>

#include "engine/cuda/device_verifier.h"
#include "engine/cuda/device_worker.h"

namespace slip {

Target make_target(const std::shared_ptr<kernels::cuda::DeviceQueue>& device,
                   std::shared_ptr<const ModelWeights> weights, const WorkerSize& size, kernels::ThreadPool& pool) {
  if (device == nullptr) {
    auto local =
        std::make_unique<LocalWorker>(std::move(weights), size.max_rows, size.max_logit_rows, size.n_pages, pool);
    return {std::move(local), &pool};
  }
  auto worker = std::make_unique<DeviceWorker>(device, *weights, size.max_rows, size.max_logit_rows, size.n_pages);
  auto verifier = std::make_unique<DeviceVerifier>(*worker);
  return {std::move(worker), std::move(verifier)};
}

}  // namespace slip
