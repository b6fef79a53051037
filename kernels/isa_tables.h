// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernel_table.h"

namespace slip::kernels {

// Each is defined in a source file of its own, compiled for its instructions (isa.cmake).
extern const KernelTable kScalarKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
// Of matmul_bf16 and its activations only; the rest is AVX-512's.
extern const KernelTable kAvx512Bf16Kernels;
#endif

}  // namespace slip::kernels
