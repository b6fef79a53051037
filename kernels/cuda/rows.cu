// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/early_start.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launch_early.cuh"

namespace slip::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kRowThreads) embed_rows(Embed job) {
  start_in_turn();
  embed(RowBlock{static_cast<int>(blockIdx.x), 0, 0}, job);
}

__global__ void __launch_bounds__(kRowThreads) normalise_rows(RmsNorm job) {
  __shared__ RmsNormShared shared;
  start_in_turn();
  rms_norm(RowBlock{static_cast<int>(blockIdx.x), 0, 0}, job, shared);
}

__global__ void __launch_bounds__(kRowThreads) rotate_rows(RotateAndStore job) {
  start_in_turn();
  rotate_and_store(RowBlock{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), 0}, job);
}

}  // namespace

cudaError_t launch_embed(const Embed& job, int n_rows, cudaStream_t stream) {
  return launch_early<embed_rows>({dim3(static_cast<unsigned>(n_rows)), kRowThreads}, job, stream);
}

cudaError_t launch_rms_norm(const RmsNorm& job, int n_rows, cudaStream_t stream) {
  return launch_early<normalise_rows>({dim3(static_cast<unsigned>(n_rows)), kRowThreads}, job, stream);
}

cudaError_t launch_rotate_and_store(const RotateAndStore& job, int n_rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(n_rows), static_cast<unsigned>(head_groups(job)));
  return launch_early<rotate_rows>({grid, kRowThreads}, job, stream);
}

}  // namespace slip::kernels::cuda
