// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernel_table.h"

namespace slip::kernels {

// Each is defined in a source file of its own, compiled for its instructions (isa.cmake).
extern const KernelTable scalar_kernels;
#if defined(__x86_64__)
extern const KernelTable avx2_kernels;
extern const KernelTable avx512_kernels;
// Of matmul_bf16 and what belongs to it, and where AMX has it attention; the rest is AVX-512's.
extern const KernelTable avx512_bf16_kernels;
extern const KernelTable amx_bf16_kernels;
#endif

}  // namespace slip::kernels
