// SPDX-License-Identifier: Apache-2.0
#include "cli/open_files.h"

#include <sys/resource.h>

#include <algorithm>

namespace slip::cli {

std::uint64_t allow_open_files(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::max(before, std::min<rlim_t>(wanted, limit.rlim_max));
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

}  // namespace slip::cli
