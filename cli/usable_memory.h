// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip::cli {

// The smaller of the machine's memory and the lowest limit of this process's cgroup (v2) and its ancestors.
std::uint64_t usable_memory_bytes();

}  // namespace slip::cli
