// SPDX-License-Identifier: Apache-2.0
// The launch of a kernel that starts early (early_start.cuh).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace slip::kernels::cuda {

// The grid and blocks of a launch. `shared_bytes`: dynamic shared memory of a block. `early`: the kernel may start
// early.
struct LaunchShape {
  dim3 grid;
  int threads = 0;
  std::size_t shared_bytes = 0;
  bool early = true;
};

inline unsigned n_multiprocessors() {
  static const int n = [] {
    int device = 0, count = 1;
    if (cudaGetDevice(&device) == cudaSuccess) cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
  }();
  return static_cast<unsigned>(n);
}

// Launches kKernel(job) on the stream. It starts early if it may, and if each of its blocks can have a multiprocessor
// of its own: more blocks would crowd on those that become free first. Code that was compiled for an older device and
// translated for this one does not know how to wait, so it never starts early.
template <auto kKernel, class Operation>
cudaError_t launch_early(const LaunchShape& shape, const Operation& job, cudaStream_t stream) {
  static const bool waits = [] {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, kKernel) == cudaSuccess && attributes.ptxVersion >= 90;
  }();
  const unsigned n_blocks = shape.grid.x * shape.grid.y * shape.grid.z;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = shape.early && waits && n_blocks <= n_multiprocessors() ? 1 : 0;
  return cudaLaunchKernelEx(&config, kKernel, job);
}

}  // namespace slip::kernels::cuda
