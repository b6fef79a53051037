// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

namespace slip::cli {

// The folders of this process's cgroup (v2) and of its ancestors, the nearest first: a limit in any of them holds. A
// container sees its own cgroup as the root.
std::vector<std::filesystem::path> own_cgroups(const std::filesystem::path& membership = "/proc/self/cgroup",
                                               const std::filesystem::path& root = "/sys/fs/cgroup");

}  // namespace slip::cli
