// SPDX-License-Identifier: Apache-2.0
#include "bench/device/common_launch.h"
#include "bench/device/common_random.h"
#include "kernels/cuda/weights.cuh"

namespace slip::bench {
namespace {

constexpr int kThreads = 256;

// 64-bit, since a vocabulary's matrix has about 5e8 elements.
__device__ std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}
__device__ std::int64_t stride_of_grid() {
  return static_cast<std::int64_t>(gridDim.x) * kThreads;
}

__global__ void __launch_bounds__(kThreads) fill_matrix(std::uint16_t* to, RandomMatrix matrix, Layout layout) {
  const std::int64_t n = matrix.n_rows * matrix.n_columns;
  for (std::int64_t i = first_index(); i < n; i += stride_of_grid()) {
    const std::int64_t row = i / matrix.n_columns, column = i % matrix.n_columns;
    std::int64_t at = i;
    if (layout == Layout::kWeights) at = kernels::cuda::weight_at(row, column, matrix.n_columns);
    if (layout == Layout::kActivations) at = kernels::cuda::activation_at(row, column, matrix.n_columns);
    to[at] = random_half(matrix.seed, static_cast<std::uint64_t>(i));
  }
}

// Sums all words, with kInFlight 16-byte loads in flight per thread.
template <int kInFlight>
__global__ void __launch_bounds__(kThreads) read_words(const uint4* from, std::int64_t n, unsigned long long* sum) {
  unsigned long long own = 0;
  const std::int64_t stride = stride_of_grid();
  for (std::int64_t i = first_index(); i < n; i += kInFlight * stride) {
    uint4 parts[kInFlight];
    SLIP_UNROLL
    for (int j = 0; j < kInFlight; ++j) {
      const std::int64_t at = i + j * stride;
      parts[j] = at < n ? __ldcs(from + at) : uint4{0, 0, 0, 0};
    }
    SLIP_UNROLL
    for (int j = 0; j < kInFlight; ++j) {
      own += static_cast<unsigned long long>(parts[j].x) + parts[j].y + parts[j].z + parts[j].w;
    }
  }
  for (int by = 16; by > 0; by /= 2) own += __shfl_xor_sync(0xFFFFFFFFU, own, by);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, own);
}

}  // namespace

cudaError_t launch_fill(std::uint16_t* to, const RandomMatrix& matrix, Layout layout, cudaStream_t stream) {
  fill_matrix<<<8192, kThreads, 0, stream>>>(to, matrix, layout);
  return cudaGetLastError();
}

cudaError_t launch_read(const ReadProbe& probe, const void* from, std::int64_t n_bytes, unsigned long long* sum,
                        cudaStream_t stream) {
  const auto kernel = probe.loads_in_flight == 8 ? read_words<8> : read_words<4>;
  kernel<<<probe.n_blocks, kThreads, 0, stream>>>(static_cast<const uint4*>(from), n_bytes / 16, sum);
  return cudaGetLastError();
}

}  // namespace slip::bench
