// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace slip {

// Creates malloc()'s per-thread state for the calling thread. A thread that lives as long as the service calls it
// first: jemalloc 5.3 ends the process (tcache_arena_associate) if a thread's first allocation fails.
inline void prepare_thread_memory() noexcept {
  void* volatile memory = std::malloc(1);  // volatile: otherwise the compiler removes both calls
  std::free(memory);
}

}  // namespace slip
