// SPDX-License-Identifier: Apache-2.0
// A block of threads, in terms that compile for the host as well. A body runs in phases: `each` calls it for every
// thread and ends in a barrier, so that on the host a loop over the threads does the same. What a thread keeps from one
// phase to the next is a PerThread; everything outside `each` has the same value in all threads of the block. With the
// reductions below, whose tree is fixed, and without contraction (-fmad=false), host and device compute the same bits.
#pragma once

#include <cstdint>

#include "kernels/device_code.h"

namespace slip::kernels::cuda {

inline constexpr int kWarp = 32;

// One value a thread: a register on the device, an array on the host.
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
struct Larger {  // NaN is never taken
  template <class T>
  SLIP_DEVICE T operator()(const T& a, const T& b) const {
    return b > a ? b : a;
  }
};
struct Smaller {
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

  int x = 0, y = 0, z = 0;  // its place in the grid

  template <class Body>
  SLIP_DEVICE void each(const Body& body) const {
    each_apart(body);
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }
  // Without the barrier: for what the same thread, or nobody in this kernel, reads.
  template <class Body>
  SLIP_DEVICE void each_apart(const Body& body) const {
#if defined(__CUDA_ARCH__)
    body(static_cast<int>(threadIdx.x));
#else
    for (int thread = 0; thread < kThreads; ++thread) body(thread);
#endif
  }
  // With a barrier of each warp only: for what lanes of one warp pass to each other through shared memory.
  template <class Body>
  SLIP_DEVICE void each_in_warps(const Body& body) const {
    each_apart(body);
#if defined(__CUDA_ARCH__)
    __syncwarp();
#endif
  }

  // Every lane gets the combination of its warp's 32 values: lane i with i ^ 16, then 8, 4, 2, 1. REQUIRES:
  // combine(a, b) == combine(b, a) to the bit.
  template <class T, class Combine>
  SLIP_DEVICE void combine_in_warps(Per<T>& values, const Combine& combine) const {
#if defined(__CUDA_ARCH__)
    SLIP_UNROLL
    for (int by = kWarp / 2; by > 0; by /= 2) {
      values[0] = combine(values[0], __shfl_xor_sync(0xFFFFFFFFU, values[0], by));
    }
#else
    for (int by = kWarp / 2; by > 0; by /= 2) {
      const Per<T> before = values;
      for (int i = 0; i < kThreads; ++i) values[i] = combine(before[i], before[i ^ by]);
    }
#endif
  }

  // The combination of all threads' values: each warp's tree, then the warps in order. `slots`: shared, [kWarps].
  template <class T, class Combine>
  SLIP_DEVICE T combine(Per<T>& values, T* slots, const Combine& combine) const {
    combine_in_warps(values, combine);
    each([&](int thread) {
      if (thread % kWarp == 0) slots[thread / kWarp] = values[thread];
    });
    T all = slots[0];
    for (int warp = 1; warp < kWarps; ++warp) all = combine(all, slots[warp]);
    each([](int) {});  // the slots may be used again
    return all;
  }
};

// Counts and fixed-point sums: integers, so that the order in which threads add does not show.
template <class T>
SLIP_DEVICE void add_shared(T* to, T value) {
#if defined(__CUDA_ARCH__)
  atomicAdd(to, value);
#else
  *to += value;
#endif
}
// What `to` held before.
SLIP_DEVICE std::int32_t take_ticket(std::int32_t* to) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(to, 1);
#else
  return (*to)++;
#endif
}

}  // namespace slip::kernels::cuda
