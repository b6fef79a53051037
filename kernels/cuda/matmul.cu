// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/launch.h"

namespace slip::kernels::cuda {
namespace {

template <int kTiles, int kRowTiles>
__global__ void __launch_bounds__(kMatmulThreads) multiply(Matmul job) {
  extern __shared__ float4 memory[];
  matmul(MatmulBlock{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), 0}, job,
         *reinterpret_cast<MatmulShared<kTiles, kRowTiles>*>(memory));
}

template <int kTiles, int kRowTiles>
cudaError_t launch_shape(const Matmul& job, cudaStream_t stream) {
  constexpr int kBytes = sizeof(MatmulShared<kTiles, kRowTiles>);
  const auto kernel = multiply<kTiles, kRowTiles>;
  if (kBytes > 48 * 1024) {
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    if (error != cudaSuccess) return error;
  }
  const auto blocks = static_cast<unsigned>((output_tiles(job.n_out) + kTiles - 1) / kTiles);
  const auto shares = static_cast<unsigned>((row_tiles(job.n_rows) + kRowTiles - 1) / kRowTiles);
  kernel<<<dim3(blocks, shares), kMatmulThreads, kBytes, stream>>>(job);
  return cudaGetLastError();
}

template <int kTiles>
cudaError_t launch_tiles(const Matmul& job, cudaStream_t stream) {
  const std::int64_t n = job.row_weights.alike ? row_tiles(job.n_rows) : 1;
  if (n <= 1) return launch_shape<kTiles, 1>(job, stream);
  if (n <= 2) return launch_shape<kTiles, 2>(job, stream);
  if (n <= 4) return launch_shape<kTiles, 4>(job, stream);
  return launch_shape<kTiles, kMostRowTiles>(job, stream);
}

}  // namespace

cudaError_t launch_matmul(const Matmul& job, cudaStream_t stream) {
  // Two tiles per block halve the reads of activations. For one tile of rows these are few, and with fewer outputs than
  // this there would be too few blocks to fill the device.
  constexpr std::int64_t kOutputsWorthTwo = 16384;
  const bool two = job.epilogue == Epilogue::kGateUp || job.n_out >= kOutputsWorthTwo || job.n_rows > kTileRows;
  return two ? launch_tiles<2>(job, stream) : launch_tiles<1>(job, stream);
}

}  // namespace slip::kernels::cuda
