// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch (CUDA Programming Guide, compute capability 9.0): the blocks of a kernel start while
// the kernel before it in the stream still runs. This hides the gap between two kernels, and the time in which a kernel
// fetches what the one before it does not write.
#pragma once

#include "kernels/device_code.h"

namespace slip::kernels::cuda {

// Lets the next kernel of the stream start its blocks, unless this one's fill the device: then they would crowd on the
// multiprocessors that become free first.
SLIP_DEVICE void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  unsigned n_multiprocessors = 0;
  asm("mov.u32 %0, %%nsmid;" : "=r"(n_multiprocessors));
  if (gridDim.x * gridDim.y * gridDim.z <= n_multiprocessors)
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits until the previous kernel of the stream is complete and its writes are visible. Until then a block writes no
// global memory and reads only what no kernel writes: weights, and tables that a copy brought. Every block calls it,
// also one that has nothing to do: the next kernel waits for this one only, and so for all before it.
SLIP_DEVICE void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Both at once, for a kernel that has nothing to fetch before.
SLIP_DEVICE void start_in_turn() {
  let_next_start();
  wait_for_previous();
}

}  // namespace slip::kernels::cuda
