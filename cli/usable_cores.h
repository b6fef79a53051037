// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip::cli {

// Cores this process may use: its affinity, and the CPU quota of its cgroup (v2 or v1) rounded down; at least 1.
int usable_cores();

}  // namespace slip::cli
