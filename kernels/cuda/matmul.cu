// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launch_early.cuh"
#include "kernels/cuda/matmul_wide.cuh"

namespace slip::kernels::cuda {
namespace {

template <int kTiles, int kRowTiles>
__global__ void __launch_bounds__(kMatmulThreads) multiply(Matmul job) {
  extern __shared__ float4 memory[];
  matmul(MatmulBlock{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), 0}, job,
         *reinterpret_cast<MatmulShared<kTiles, kRowTiles>*>(memory));
}

// Blocks that share weights run side by side, so these are read from memory once.
template <int kRowTiles>
__global__ void __launch_bounds__(kMatmulThreads, 2) multiply_many_rows(Matmul job) {
  extern __shared__ float4 memory[];
  matmul_wide(MatmulBlock{static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x), 0}, job,
              *reinterpret_cast<WideShared<kRowTiles>*>(memory));
}

// The numbers of blocks that share all outputs, and all rows.
template <int kTiles>
unsigned output_blocks(const Matmul& job) {
  return static_cast<unsigned>((output_tiles(job.n_out) + kTiles - 1) / kTiles);
}
template <int kRowTiles>
unsigned row_blocks(const Matmul& job) {
  return static_cast<unsigned>((row_tiles(job.n_rows) + kRowTiles - 1) / kRowTiles);
}

template <auto kKernel, int kBytes>
cudaError_t launch_with_memory(LaunchShape shape, const Matmul& job, cudaStream_t stream) {
  if (kBytes > 48 * 1024) {
    const cudaError_t error = cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    if (error != cudaSuccess) return error;
  }
  shape.shared_bytes = kBytes;
  shape.early = starts_early(job);
  return launch_early<kKernel>(shape, job, stream);
}

template <int kTiles, int kRowTiles>
cudaError_t launch_shape(const Matmul& job, cudaStream_t stream) {
  const dim3 grid(output_blocks<kTiles>(job), row_blocks<kRowTiles>(job));
  return launch_with_memory<multiply<kTiles, kRowTiles>, sizeof(MatmulShared<kTiles, kRowTiles>)>(
      {grid, kMatmulThreads}, job, stream);
}

template <int kTiles>
cudaError_t launch_tiles(const Matmul& job, cudaStream_t stream) {
  const std::int64_t n = job.row_weights.alike ? row_tiles(job.n_rows) : 1;
  if (n <= 1) return launch_shape<kTiles, 1>(job, stream);
  if (n <= 2) return launch_shape<kTiles, 2>(job, stream);
  if (n <= 4) return launch_shape<kTiles, 4>(job, stream);
  return launch_shape<kTiles, kMostRowTiles>(job, stream);
}

template <int kRowTiles>
dim3 wide_grid(const Matmul& job) {
  return dim3(row_blocks<kRowTiles>(job), output_blocks<kWideTiles>(job));
}
template <int kRowTiles>
cudaError_t launch_wide(const Matmul& job, cudaStream_t stream) {
  return launch_with_memory<multiply_many_rows<kRowTiles>, sizeof(WideShared<kRowTiles>)>(
      {wide_grid<kRowTiles>(job), kMatmulThreads}, job, stream);
}

// Whether there are enough wide blocks to be faster than matmul.cuh's, of which eight warps share the depth: from 4 / 3
// of the multiprocessors on, measured on an H200.
template <int kRowTiles>
bool is_wide(const Matmul& job) {
  const dim3 grid = wide_grid<kRowTiles>(job);
  return 3 * grid.x * grid.y >= 4 * n_multiprocessors();
}

}  // namespace

cudaError_t launch_matmul(const Matmul& job, cudaStream_t stream) {
  constexpr int kMany = 2 * kMostRowTiles;
  if (job.row_weights.alike && row_tiles(job.n_rows) > kMostRowTiles / 2) {
    if (row_tiles(job.n_rows) > kMostRowTiles && is_wide<kMany>(job)) return launch_wide<kMany>(job, stream);
    if (is_wide<kMostRowTiles>(job)) return launch_wide<kMostRowTiles>(job, stream);
  }
  // Two tiles per block halve the reads of activations. For one tile of rows these are few, and with fewer outputs than
  // this there would be too few blocks to fill the device.
  constexpr std::int64_t kOutputsWorthTwo = 16384;
  const bool two = job.epilogue == Epilogue::kGateUp || job.n_out >= kOutputsWorthTwo || job.n_rows > kTileRows;
  return two ? launch_tiles<2>(job, stream) : launch_tiles<1>(job, stream);
}

}  // namespace slip::kernels::cuda
