// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernel_table.h"

namespace slip::kernels {

// The kernels of each instruction class. Each table has its own source file, compiled with that class's flags
// (isa.cmake).
extern const KernelTable kScalarKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
// Only matmul_bf16 and its helpers, and attention for AMX; AVX-512's table provides the rest.
extern const KernelTable kAvx512Bf16Kernels;
extern const KernelTable kAmxBf16Kernels;
#endif

}  // namespace slip::kernels
