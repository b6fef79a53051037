// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace slip::cli {

// The least of the machine's memory, this process's limit of addresses (`ulimit -v`), and the limits of its cgroup (v2)
// and its ancestors, or that of a container in v1.
std::uint64_t usable_memory_bytes();
// The least limit in these files of cgroups, in bytes; the largest number if none has one.
std::uint64_t least_limit(std::span<const std::filesystem::path> files);

// A size for people: "320 MB", "1.25 GB".
std::string memory_text(std::uint64_t bytes);

// Error{kTooLarge} with both figures if this process may not use `bytes`: the system would end it in the middle of the
// work. `what` begins the message, such as "x has 8 billion parameters, which take".
void require_memory(std::uint64_t bytes, const std::string& what, const std::string& hint, const std::string& param);

// In billions: "0.0125", "68.5".
std::string billions_text(double count);

}  // namespace slip::cli
