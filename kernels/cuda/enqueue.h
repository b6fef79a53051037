// SPDX-License-Identifier: Apache-2.0
// The one way to put an operation on a stream: checks what would read or write out of bounds (our bugs: SLIP_CHECK),
// then launches. Throws DeviceFailure when the runtime refuses. All pointers are to device memory; any thread, as long
// as the stream is its own.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/loss.cuh"
#include "kernels/cuda/matmul.cuh"
#include "kernels/cuda/observe.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/sample.cuh"

namespace slip::kernels::cuda {

// What the runtime said, and to what. Contained at the step boundary: it fails the requests of the step.
class DeviceFailure : public std::runtime_error {
 public:
  DeviceFailure(cudaError_t error, const std::string& what);
};
void check(cudaError_t error, const char* what);

void enqueue(const Embed& job, int n_rows, cudaStream_t stream);
void enqueue(const RmsNorm& job, int n_rows, cudaStream_t stream);
void enqueue(const RotateAndStore& job, int n_rows, cudaStream_t stream);
void enqueue(const Matmul& job, cudaStream_t stream);
// Of n_rows rows in n_tiles tiles of at most rows_a_tile; merges the splits, if they are to be.
struct AttentionGrid {
  int n_rows = 0, n_tiles = 0, rows_a_tile = 0;
};
void enqueue(const Attention& job, const AttentionGrid& grid, cudaStream_t stream);
void enqueue(const MakeLaws& job, int n_rows, cudaStream_t stream);
void enqueue(const GumbelParts& job, int n_rows, cudaStream_t stream);
void enqueue(const DrawTokens& job, int n_rows, cudaStream_t stream);
void enqueue(const Accept& job, int n_proposals, cudaStream_t stream);
void enqueue(const Observe& job, int n_rows, cudaStream_t stream);
void enqueue(const FusedLoss& job, int n_rows, cudaStream_t stream);

}  // namespace slip::kernels::cuda
