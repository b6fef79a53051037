// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip::cli {

// Cores this process may use: its affinity, and the CPU quota of its cgroup (v2 or v1) rounded down; at least 1.
int usable_cores();
// Whether the cgroup limits time to less than the affinity's CPUs: then no CPU is this process's own.
bool limited_by_quota();

}  // namespace slip::cli
