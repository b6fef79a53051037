// SPDX-License-Identifier: Apache-2.0
// Launchers of the device benchmarks' own kernels; call them through common_device.h.
#pragma once

#include <cuda_runtime_api.h>

#include "bench/device/common_matrix.h"

namespace slip::bench {

struct ReadProbe {
  int loads_in_flight = 4;  // 16-byte loads per thread: 4 or 8
  int n_blocks = 1;
};

cudaError_t launch_fill(std::uint16_t* to, const RandomMatrix& matrix, Layout layout, cudaStream_t stream);
// Adds the 32-bit words of n_bytes, a multiple of 16, to *sum.
cudaError_t launch_read(const ReadProbe& probe, const void* from, std::int64_t n_bytes, unsigned long long* sum,
                        cudaStream_t stream);

}  // namespace slip::bench
