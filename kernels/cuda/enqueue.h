// SPDX-License-Identifier: Apache-2.0
// Enqueue an operation on a stream; all other code launches through this. Checks bounds (our bugs: SLIP_CHECK), then
// launches. Throws DeviceFailure when the runtime refuses. All pointers are to device memory. Any thread, but only one
// per stream.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "kernels/cuda/jobs.h"

namespace slip::kernels::cuda {

// A CUDA error and the operation that met it. Caught at the step boundary; the step's requests fail.
class DeviceFailure : public std::runtime_error {
 public:
  DeviceFailure(cudaError_t error, const std::string& what);
};
void check(cudaError_t error, const char* what);

void enqueue(const Job& job, cudaStream_t stream);
template <class Operation>
void enqueue(const Operation& operation, int n_rows, cudaStream_t stream) {
  enqueue(Job(OnRows<Operation>{operation, n_rows}), stream);
}
inline void enqueue(const Attention& operation, const AttentionGrid& grid, cudaStream_t stream) {
  enqueue(Job(TiledAttention{operation, grid}), stream);
}

}  // namespace slip::kernels::cuda
