// SPDX-License-Identifier: Apache-2.0
// SLIP_DEVICE marks functions that a CUDA build also compiles for the device. Host code may call them too.
#pragma once

#if defined(__CUDACC__)
#define SLIP_DEVICE __host__ __device__ __forceinline__
#else
#define SLIP_DEVICE inline
#endif
// For the device compiler only: nvcc also passes this text to the host compiler, which does not know the pragma.
#if defined(__CUDA_ARCH__)
#define SLIP_PRAGMA(text) _Pragma(#text)
#define SLIP_UNROLL SLIP_PRAGMA(unroll)
#else
#define SLIP_UNROLL
#endif
