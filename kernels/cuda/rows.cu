// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/launch.h"

namespace slip::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kRowThreads) embed_rows(Embed job) {
  embed(RowBlock{static_cast<int>(blockIdx.x), 0, 0}, job);
}

__global__ void __launch_bounds__(kRowThreads) normalise_rows(RmsNorm job) {
  __shared__ RmsNormShared shared;
  rms_norm(RowBlock{static_cast<int>(blockIdx.x), 0, 0}, job, shared);
}

__global__ void __launch_bounds__(kRowThreads) rotate_rows(RotateAndStore job) {
  rotate_and_store(RowBlock{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), 0}, job);
}

}  // namespace

cudaError_t launch_embed(const Embed& job, int n_rows, cudaStream_t stream) {
  embed_rows<<<n_rows, kRowThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_rms_norm(const RmsNorm& job, int n_rows, cudaStream_t stream) {
  normalise_rows<<<n_rows, kRowThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_rotate_and_store(const RotateAndStore& job, int n_rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(n_rows), static_cast<unsigned>(head_groups(job)));
  rotate_rows<<<grid, kRowThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace slip::kernels::cuda
