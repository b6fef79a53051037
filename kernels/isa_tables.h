// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernel_table.h"

namespace slip::kernels {

// The kernels of each instruction class. Each table has its own source file, compiled with that class's flags
// (isa.cmake).
extern const KernelTable scalar_kernels;
#if defined(__x86_64__)
extern const KernelTable avx2_kernels;
extern const KernelTable avx512_kernels;
// Only matmul_bf16 and its helpers, and attention for AMX; AVX-512's table provides the rest.
extern const KernelTable avx512_bf16_kernels;
extern const KernelTable amx_bf16_kernels;
#endif

}  // namespace slip::kernels
