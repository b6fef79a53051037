// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/jobs.h"

namespace slip::kernels::cuda {

// Puts a job on a stream that somebody else owns: a cudaStream_t, as LibTorch hands out its own. Checks as enqueue().
// Throws DeviceFailure; Error{kUnsupported} in a build without CUDA. Any thread whose stream it is.
void enqueue_on(void* stream, const Job& job);

}  // namespace slip::kernels::cuda
