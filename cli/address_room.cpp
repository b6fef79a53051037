// SPDX-License-Identifier: Apache-2.0
#include "cli/address_room.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <limits>

namespace slip::cli {
namespace {

// Zero if the kernel does not say.
std::uint64_t mapped_bytes() {
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[32];
  const ::ssize_t n = ::read(file, text, sizeof text);
  ::close(file);
  std::uint64_t pages = 0;
  for (::ssize_t i = 0; i < n && text[i] >= '0' && text[i] <= '9'; ++i) {
    pages = pages * 10 + static_cast<std::uint64_t>(text[i] - '0');
  }
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::uint64_t address_room() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  const std::uint64_t mapped = mapped_bytes();
  return limit.rlim_cur > mapped ? limit.rlim_cur - mapped : 0;
}

}  // namespace slip::cli
