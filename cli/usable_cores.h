// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace slip::cli {

// Cores this process may use: its affinity, and the CPU quota of its cgroup (v2 or v1) rounded down; at least 1.
int usable_cores();
// Whether the cgroup limits time to less than the affinity's CPUs: then no CPU is this process's own.
bool limited_by_quota();
// Error{kInvalidArgument} naming `param` for more threads than make sense here: over four for each usable core, and
// over 16. In each of a step's hundreds of loops a team is woken and waited for, so that one of thousands gets nothing
// done.
void check_threads(int threads, const std::string& param);

}  // namespace slip::cli
