// SPDX-License-Identifier: Apache-2.0
#include "cli/process/address_room.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <limits>

namespace slip::cli {
namespace {

// Sizes of this process in bytes; zero if the kernel does not say.
struct Mapped {
  std::uint64_t all = 0, data = 0;
};

Mapped mapped_bytes() {
  constexpr int kAll = 0, kData = 5;  // fields of statm, in pages
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[128];
  const ::ssize_t n = ::read(file, text, sizeof text);
  ::close(file);
  std::uint64_t fields[kData + 1] = {};
  int field = 0;
  for (::ssize_t i = 0; i < n && field <= kData; ++i) {
    if (text[i] == ' ') ++field;
    if (text[i] >= '0' && text[i] <= '9')
      fields[field] = fields[field] * 10 + static_cast<std::uint64_t>(text[i] - '0');
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return {fields[kAll] * page, fields[kData] * page};
}

std::uint64_t room_under(decltype(RLIMIT_AS) kind, std::uint64_t used) {
  rlimit limit{};
  if (::getrlimit(kind, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

}  // namespace

std::uint64_t address_room() {
  const Mapped mapped = mapped_bytes();
  const std::uint64_t addresses = room_under(RLIMIT_AS, mapped.all), data = room_under(RLIMIT_DATA, mapped.data);
  return addresses < data ? addresses : data;
}

}  // namespace slip::cli
