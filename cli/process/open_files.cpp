// SPDX-License-Identifier: Apache-2.0
#include "cli/process/open_files.h"

#include <sys/resource.h>

#include <algorithm>

#include "server/http/options.h"

namespace slip::cli {
namespace {

constexpr std::uint64_t kOwnFiles = 256;  // a service with the demo models has 20 open
constexpr std::uint64_t kProbes = ServerOptions::kProbeConnections;

}  // namespace

std::uint64_t allow_open_files(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::max(before, std::min<rlim_t>(wanted, limit.rlim_max));
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

std::uint64_t files_for(int max_connections) {
  return static_cast<std::uint64_t>(max_connections) + kProbes + kOwnFiles;
}

int connections_within(std::uint64_t allowed, int max_connections) {
  const std::uint64_t taken = std::min(kOwnFiles, allowed / 2) + kProbes;
  const std::uint64_t left = allowed > taken ? allowed - taken : 1;
  return static_cast<int>(std::min(left, static_cast<std::uint64_t>(max_connections)));
}

}  // namespace slip::cli
