// SPDX-License-Identifier: Apache-2.0
// The one way to put an operation on a stream: checks what would read or write out of bounds (our bugs: SLIP_CHECK),
// then launches. Throws DeviceFailure when the runtime refuses. All pointers are to device memory; any thread, as long
// as the stream is its own.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "kernels/cuda/jobs.h"

namespace slip::kernels::cuda {

// What the runtime said, and to what. Contained at the step boundary: it fails the requests of the step.
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
