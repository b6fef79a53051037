// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engine/cuda/device_worker.h"
#include "tests/kernels/cuda/host_queue.h"

namespace slip::testing {

// A worker on a device that is the host.
struct DeviceBench {
  explicit DeviceBench(const ModelWeights& weights, std::int32_t max_rows = 128, std::int32_t max_logit_rows = 128)
      : worker(queue, weights, max_rows, max_logit_rows, 128) {}
  std::shared_ptr<kernels::cuda::HostQueue> queue = std::make_shared<kernels::cuda::HostQueue>();
  DeviceWorker worker;
};

}  // namespace slip::testing
