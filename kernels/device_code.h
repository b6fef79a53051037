// SPDX-License-Identifier: Apache-2.0
// Marks functions that a CUDA build compiles for the device as well. Host code may use them as they are.
#pragma once

#if defined(__CUDACC__)
#define SLIP_DEVICE __host__ __device__ __forceinline__
#else
#define SLIP_DEVICE inline
#endif
// For the device's compiler only: nvcc hands the same text to the host's, which does not know it.
#if defined(__CUDA_ARCH__)
#define SLIP_PRAGMA(text) _Pragma(#text)
#define SLIP_UNROLL SLIP_PRAGMA(unroll)
#else
#define SLIP_UNROLL
#endif
