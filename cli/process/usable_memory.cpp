// SPDX-License-Identifier: Apache-2.0
#include "cli/process/usable_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "cli/process/cgroups.h"
#include "common/error.h"

namespace slip::cli {
namespace {

std::string whole(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

// Three digits, or all of a larger number: no exponent.
std::string three_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return value < 999.5 ? text : whole(value);  // from there on %.3g rounds to 1e+03
}

}  // namespace

std::uint64_t least_limit(std::span<const std::filesystem::path> files) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file);
    std::uint64_t limit = 0;
    if (in >> limit && limit > 0) least = std::min(least, limit);  // "max" is no number
  }
  return least;
}

std::uint64_t usable_memory_bytes() {
  std::uint64_t bytes =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE));
  for (const auto kind : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (::getrlimit(kind, &limit) == 0) bytes = std::min<std::uint64_t>(bytes, limit.rlim_cur);
  }
  std::vector<std::filesystem::path> limits = {"/sys/fs/cgroup/memory/memory.limit_in_bytes"};  // v1
  for (const std::filesystem::path& cgroup : own_cgroups()) limits.push_back(cgroup / "memory.max");
  bytes = std::min(bytes, least_limit(limits));
  return bytes;
}

std::string memory_text(std::uint64_t bytes) {
  constexpr double kMega = 1e6, kGiga = 1e9;
  const auto size = static_cast<double>(bytes);
  return size < kGiga ? whole(size / kMega) + " MB" : three_digits(size / kGiga) + " GB";
}

void require_memory(std::uint64_t bytes, const std::string& what, const std::string& hint, const std::string& param) {
  const std::uint64_t usable = usable_memory_bytes();
  if (bytes <= usable) return;
  throw Error(ErrorCode::kTooLarge, what + " " + memory_text(bytes) + "; this process may use " + memory_text(usable),
              hint, param);
}

std::string billions_text(double count) {
  return three_digits(count / 1e9);
}

}  // namespace slip::cli
