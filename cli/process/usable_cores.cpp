// SPDX-License-Identifier: Apache-2.0
#include "cli/process/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "cli/process/cgroups.h"
#include "common/counted.h"
#include "common/error.h"

namespace slip::cli {

namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();
constexpr int kThreadsOfACore = 4, kThreadsAnywhere = 16;

// The CPU time quota in cores, from the two files of cgroup v1. −1 means no quota.
double v1_quota() {
  double quota = 0, period = 0;
  std::ifstream of_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), of_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (of_quota >> quota && of_period >> period && quota > 0 && period > 0) return quota / period;
  return kNoQuota;
}

double usable_quota() {
  return std::min(cpu_quota(own_cgroups()), v1_quota());
}

int cpus_in_affinity() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

}  // namespace

double cpu_quota(std::span<const std::filesystem::path> cgroups) {
  double least = kNoQuota;
  for (const std::filesystem::path& cgroup : cgroups) {
    std::ifstream in(cgroup / "cpu.max");
    double quota = 0, period = 0;
    if (in >> quota >> period && quota > 0 && period > 0) least = std::min(least, quota / period);  // "max": no number
  }
  return least;
}

int usable_cores() {
  return std::max(1, static_cast<int>(std::min<double>(cpus_in_affinity(), usable_quota())));
}

bool limited_by_quota() {
  return usable_quota() < cpus_in_affinity();
}

void check_threads(int threads, const std::string& param) {
  const int cores = usable_cores();
  const int most = std::max(kThreadsAnywhere, kThreadsOfACore * cores);
  if (threads <= most) return;
  throw Error(ErrorCode::kInvalidArgument,
              param + ": " + std::to_string(threads) + " threads are over the " + std::to_string(most) +
                  " that make sense with " + counted(static_cast<std::uint64_t>(cores), "usable core"),
              "more threads than cores make nothing faster", param);
}

}  // namespace slip::cli
