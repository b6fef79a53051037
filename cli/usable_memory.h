// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace slip::cli {

// The smaller of the machine's memory and the lowest limit of this process's cgroup (v2) and its ancestors.
std::uint64_t usable_memory_bytes();

// A size for people: "320 MB", "1.25 GB".
std::string memory_text(std::uint64_t bytes);

}  // namespace slip::cli
