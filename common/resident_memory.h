// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>
#include <cstdint>
#include <fstream>

namespace slip {

// The process's resident set in bytes, from /proc/self/statm; 0 if that cannot be read. Any thread.
inline std::uint64_t resident_memory_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total_pages = 0, resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) return 0;
  return resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace slip
