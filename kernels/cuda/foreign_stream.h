// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/jobs.h"

namespace slip::kernels::cuda {

// Enqueues a job on a cudaStream_t owned by other code, such as LibTorch. Checks as enqueue() does. Throws
// DeviceFailure; Error{kUnsupported} in a build without CUDA. Threads: one per stream.
void enqueue_on(void* stream, const Job& job);

}  // namespace slip::kernels::cuda
