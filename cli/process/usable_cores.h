// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace slip::cli {

// The cores this process may use: its affinity and its CPU quota rounded down; at least 1. The quota is the least of
// its cgroup (v2) and the ancestors, such as systemd's CPUQuota= of a service or a slice, or that of a container in v1.
int usable_cores();
// Whether the time quota is below the affinity's CPUs; then no CPU is dedicated to this process.
bool limited_by_quota();
// The least CPU time quota of these cgroups (v2), in cores; infinite if none has one.
double cpu_quota(std::span<const std::filesystem::path> cgroups);
// Error{kInvalidArgument} naming `param` for too many threads: over four per usable core, and over 16. Each step has
// hundreds of loops that wake and await the whole team, so thousands of threads make no progress.
void check_threads(int threads, const std::string& param);

}  // namespace slip::cli
