// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/early_start.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launch_early.cuh"

#include <mutex>

namespace slip::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kAttentionThreads) attend_tiles(Attention job) {
  extern __shared__ float4 memory[];
  wait_for_previous();  // and no let_next_start(): blocks that wait beside these slow them down
  const AttentionBlock block{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)};
  attend(block, job, reinterpret_cast<float*>(memory));
}

__global__ void __launch_bounds__(kCombineThreads) merge_rows(Attention job) {
  start_in_turn();
  combine_splits(Block<kCombineThreads>{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), 0}, job);
}

// Raises the limit of shared memory, never lowers it: a captured graph may hold launches that need more.
cudaError_t allow_shared_bytes(int bytes) {
  static std::mutex mutex;
  static int allowed = 48 * 1024;
  const std::scoped_lock lock(mutex);
  if (bytes <= allowed) return cudaSuccess;
  const cudaError_t error = cudaFuncSetAttribute(attend_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error == cudaSuccess) allowed = bytes;
  return error;
}

}  // namespace

cudaError_t launch_attention(const Attention& job, int n_tiles, cudaStream_t stream) {
  const auto bytes = static_cast<int>(attention_shared_bytes(job.kv.head_dim, job.whole));
  const cudaError_t error = allow_shared_bytes(bytes);
  if (error != cudaSuccess) return error;
  const auto heads = static_cast<unsigned>(job.kv.n_kv_heads * job.stretches());
  const dim3 grid(static_cast<unsigned>(n_tiles), heads, job.whole ? 1U : static_cast<unsigned>(job.n_splits));
  return launch_early<attend_tiles>({grid, kAttentionThreads, static_cast<std::size_t>(bytes)}, job, stream);
}

cudaError_t launch_combine_splits(const Attention& job, int n_rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(n_rows), static_cast<unsigned>(job.n_heads));
  return launch_early<merge_rows>({grid, kCombineThreads}, job, stream);
}

}  // namespace slip::kernels::cuda
