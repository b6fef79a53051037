// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace slip::cli {

// The cores this process may use: its affinity and its cgroup's CPU quota (v2 or v1) rounded down; at least 1.
int usable_cores();
// Whether the cgroup's time quota is below the affinity's CPUs; then no CPU is dedicated to this process.
bool limited_by_quota();
// Error{kInvalidArgument} naming `param` for too many threads: over four per usable core, and over 16. Each step has
// hundreds of loops that wake and await the whole team, so thousands of threads make no progress.
void check_threads(int threads, const std::string& param);

}  // namespace slip::cli
