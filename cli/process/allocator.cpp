// SPDX-License-Identifier: Apache-2.0
// Selects jemalloc as the program's allocator. In glibc's arenas long-lived blocks lie between the temporaries of
// training, so their memory was never returned: 1.4 times as much after an hour on four topics.
#include <limits>

#include "cli/process/address_room.h"

// jemalloc reads it at its first allocation. Freed memory goes back after two seconds, from a thread of jemalloc's own.
// With more arenas than threads that allocate, the engine never waits for a lock that the learner's idle thread holds.
#define SLIPSTREAM_MALLOC_CONF "background_thread:true,narenas:64,dirty_decay_ms:2000"
extern "C" {
// NOLINTBEGIN(readability-identifier-naming): jemalloc's name
extern const char* malloc_conf;
constinit const char* malloc_conf = SLIPSTREAM_MALLOC_CONF;
// NOLINTEND(readability-identifier-naming)
}

namespace {

// jemalloc keeps the addresses of freed memory, each arena its own. Where a limit counts them, a flood would leave the
// threads that it did not use without memory for ever, so they go back too. That costs about 2 % of the embedded
// model's speed.
void unmap_under_a_limit(int /*argc*/, char** /*argv*/, char** /*environment*/) {
  if (slip::cli::address_room() == std::numeric_limits<std::uint64_t>::max()) return;
  malloc_conf = SLIPSTREAM_MALLOC_CONF ",retain:false";
}

// Run before the first allocation.
using FirstCall = void (*)(int, char**, char**);
__attribute__((section(".preinit_array"), used)) FirstCall unmaps_under_a_limit = unmap_under_a_limit;

}  // namespace
