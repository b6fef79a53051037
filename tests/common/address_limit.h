// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>

namespace slip::testing {

// The addresses that this process has mapped.
inline std::size_t address_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t pages = 0;
  statm >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// From now on this process gets no new addresses, as under `ulimit -v`. Returns the limit before. For a death test's
// child, which it ends with status 2 if there can be no limit. Not with AddressSanitizer or ThreadSanitizer, which
// reserve terabytes.
inline rlimit limit_addresses_to_those_in_use() {
  rlimit before{};
  if (::getrlimit(RLIMIT_AS, &before) != 0) std::_Exit(2);
  const rlimit limit{address_bytes(), before.rlim_max};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
  return before;
}

}  // namespace slip::testing
