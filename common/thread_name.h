// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <cstddef>

namespace slip {

// Names the calling thread, as `top -H` and debuggers show it. Threads that it starts later inherit the name. Not for
// the main thread, whose name is the process's. Linux keeps 15 bytes. Best effort.
template <std::size_t kSize>
void name_thread(const char (&name)[kSize]) noexcept {
  static_assert(kSize <= 16, "a thread's name has at most 15 bytes");
  ::pthread_setname_np(::pthread_self(), name);
}

}  // namespace slip
