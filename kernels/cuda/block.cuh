// SPDX-License-Identifier: Apache-2.0
// A thread block in code that compiles for the device and for the host. A kernel's body is a sequence of phases, each a
// call of Block::each() with the code of one thread. On the device the threads run it in parallel and meet at a
// barrier; on the host a loop runs it for one thread after the other. PerThread keeps a thread's value from one phase
// to the next. Variables outside the phases must have the same value in all threads. Reductions combine in a fixed
// order. So host and device compute the same bits, if the device code is compiled with -fmad=false (no contraction to
// fused multiply-add).
#pragma once

#include <cstdint>

#include "kernels/device_code.h"

namespace slip::kernels::cuda {

inline constexpr int kWarp = 32;

// One value per thread: a register on the device, an array on the host.
template <class T, int kThreads>
class PerThread {
 public:
#if defined(__CUDA_ARCH__)
  SLIP_DEVICE T& operator[](int) {
    return value_;
  }
  SLIP_DEVICE const T& operator[](int) const {
    return value_;
  }

 private:
  T value_;
#else
  T& operator[](int thread) {
    return values_[thread];
  }
  const T& operator[](int thread) const {
    return values_[thread];
  }

 private:
  T values_[kThreads];
#endif
};

struct Add {
  template <class T>
  SLIP_DEVICE T operator()(const T& a, const T& b) const {
    return a + b;
  }
};
struct Larger {  // NaN: one in `b` is ignored, one in `a` is returned
  template <class T>
  SLIP_DEVICE T operator()(const T& a, const T& b) const {
    return b > a ? b : a;
  }
};
struct Smaller {  // NaN: as in Larger
  template <class T>
  SLIP_DEVICE T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};

template <int kThreads>
struct Block {
  static_assert(kThreads % kWarp == 0);
  static constexpr int kWarps = kThreads / kWarp;
  template <class T>
  using Per = PerThread<T, kThreads>;

  int x = 0, y = 0, z = 0;  // the block's index in the grid

  // Calls body(thread) for every thread, then waits for all of them.
  template <class Body>
  SLIP_DEVICE void each(const Body& body) const {
    each_apart(body);
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }
  // As each() without a barrier: for results that only the same thread, or no thread of this kernel, reads.
  template <class Body>
  SLIP_DEVICE void each_apart(const Body& body) const {
#if defined(__CUDA_ARCH__)
    body(static_cast<int>(threadIdx.x));
#else
    for (int thread = 0; thread < kThreads; ++thread) body(thread);
#endif
  }
  // As each() with a barrier per warp: for data that lanes of one warp exchange through shared memory.
  template <class Body>
  SLIP_DEVICE void each_in_warps(const Body& body) const {
    each_apart(body);
#if defined(__CUDA_ARCH__)
    __syncwarp();
#endif
  }

  // Reduces the 32 values of each warp and leaves the result in every lane. A butterfly: lane i combines with lane i ^
  // 16, then i ^ 8, 4, 2 and 1. REQUIRES: combine(a, b) == combine(b, a) to the bit, so for Larger no NaN.
  template <class T, class Combine>
  SLIP_DEVICE void combine_in_warps(Per<T>& values, const Combine& combine) const {
    combine_in_groups<kWarp>(values, combine);
  }
  // The same for every four lanes: 0 to 3, 4 to 7, …
  template <class T, class Combine>
  SLIP_DEVICE void combine_in_quads(Per<T>& values, const Combine& combine) const {
    combine_in_groups<4>(values, combine);
  }

  // Reduces the values of all threads: the lanes of each warp as above, then the warps in ascending order. Returns the
  // result in every thread. `slots`: [kWarps] shared memory. Overwrites `values`.
  template <class T, class Combine>
  SLIP_DEVICE T combine(Per<T>& values, T* slots, const Combine& combine) const {
    combine_in_warps(values, combine);
    each([&](int thread) {
      if (thread % kWarp == 0) slots[thread / kWarp] = values[thread];
    });
    T all = slots[0];
    for (int warp = 1; warp < kWarps; ++warp) all = combine(all, slots[warp]);
    each([](int) {});  // the slots may be reused
    return all;
  }

 private:
  template <int kLanes, class T, class Combine>
  SLIP_DEVICE void combine_in_groups(Per<T>& values, const Combine& combine) const {
#if defined(__CUDA_ARCH__)
    SLIP_UNROLL
    for (int by = kLanes / 2; by > 0; by /= 2) {
      values[0] = combine(values[0], __shfl_xor_sync(0xFFFFFFFFU, values[0], by));
    }
#else
    for (int by = kLanes / 2; by > 0; by /= 2) {
      const Per<T> before = values;
      for (int i = 0; i < kThreads; ++i) values[i] = combine(before[i], before[i ^ by]);
    }
#endif
  }
};

// Adds atomically to a number that threads share. REQUIRES: T is an integer (a count, a fixed-point sum), so that the
// order of the threads does not change the sum.
template <class T>
SLIP_DEVICE void add_shared(T* to, T value) {
#if defined(__CUDA_ARCH__)
  atomicAdd(to, value);
#else
  *to += value;
#endif
}
// Increments atomically; returns the value before.
SLIP_DEVICE std::int32_t take_ticket(std::int32_t* to) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(to, 1);
#else
  return (*to)++;
#endif
}

}  // namespace slip::kernels::cuda
