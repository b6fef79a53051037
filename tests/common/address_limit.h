// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace slip::testing {

// From now on this process gets no new addresses, as under `ulimit -v`. Returns the limit before. For a death test's
// child, which it ends with status 2 if there can be no limit. Not with AddressSanitizer or ThreadSanitizer, which
// reserve terabytes.
inline rlimit limit_addresses_to_those_in_use() {
  rlimit before{};
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t now = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  if (::getrlimit(RLIMIT_AS, &before) != 0) std::_Exit(2);
  const rlimit limit{now, before.rlim_max};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
  return before;
}

}  // namespace slip::testing
