// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/device_queue.h"

namespace slip::kernels::cuda {

// Opens the first visible CUDA device with a stream of the highest priority. Error{kUnavailable}, naming the next step,
// when there is no device or its driver is older than the runtime we were built with.
std::unique_ptr<DeviceQueue> open_device();
// The device's name and memory, such as "NVIDIA H200, 139 GiB". Errors as open_device().
std::string describe_device();

}  // namespace slip::kernels::cuda
