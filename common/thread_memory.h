// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace slip {

// Makes what malloc() keeps for each thread, for the calling one. A thread that lives as long as the service calls it
// first: jemalloc 5.3 ends the process (tcache_arena_associate) where a thread's first allocation finds no memory.
inline void prepare_thread_memory() noexcept {
  void* volatile memory = std::malloc(1);  // volatile: else the compiler leaves both calls out
  std::free(memory);
}

}  // namespace slip
