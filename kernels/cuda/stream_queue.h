// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/device_queue.h"

namespace slip::kernels::cuda {

// The first CUDA device that the process may see, through a stream of its own with the greatest priority there is.
// Error{kUnavailable}, naming the next step, when there is no device or its driver is too old for the runtime we were
// built with.
std::unique_ptr<DeviceQueue> open_device();
// Its name and memory, for a person: "NVIDIA H200, 139 GiB". Errors as open_device().
std::string describe_device();

}  // namespace slip::kernels::cuda
