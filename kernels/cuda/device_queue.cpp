// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device_queue.h"

namespace slip::kernels::cuda {

void DeviceQueue::enqueue(const Job& job) {
  check_job(job);
  if (has_rows(job)) put(job);
}

}  // namespace slip::kernels::cuda
