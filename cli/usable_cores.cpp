// SPDX-License-Identifier: Apache-2.0
#include "cli/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "common/error.h"

namespace slip::cli {

namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();
constexpr int kThreadsOfACore = 4, kThreadsAnywhere = 16;

// The CPU time quota in cores, from cgroup v2's "QUOTA PERIOD" or v1's two files. "max" or −1 means no quota.
double cgroup_quota() {
  double quota = 0, period = 0;
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2 >> quota >> period) return period > 0 ? quota / period : kNoQuota;
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (v1_quota >> quota && v1_period >> period && quota > 0 && period > 0) return quota / period;
  return kNoQuota;
}

int cpus_in_affinity() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

}  // namespace

int usable_cores() {
  return std::max(1, static_cast<int>(std::min<double>(cpus_in_affinity(), cgroup_quota())));
}

bool limited_by_quota() {
  return cgroup_quota() < cpus_in_affinity();
}

void check_threads(int threads, const std::string& param) {
  const int cores = usable_cores();
  const int most = std::max(kThreadsAnywhere, kThreadsOfACore * cores);
  if (threads <= most) return;
  throw Error(ErrorCode::kInvalidArgument,
              param + ": " + std::to_string(threads) + " threads are over the " + std::to_string(most) +
                  " that make sense with " + std::to_string(cores) + (cores == 1 ? " usable core" : " usable cores"),
              "more threads than cores make nothing faster", param);
}

}  // namespace slip::cli
