// SPDX-License-Identifier: Apache-2.0
#include "cli/process/cgroups.h"

#include <fstream>
#include <string>
#include <string_view>

namespace slip::cli {
namespace {

// This process's path below the root of cgroup v2; "/" inside a container.
std::filesystem::path own_path(const std::filesystem::path& membership) {
  constexpr std::string_view kUnified = "0::";
  std::ifstream in(membership);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(kUnified)) return line.substr(kUnified.size());
  }
  return "/";
}

}  // namespace

std::vector<std::filesystem::path> own_cgroups(const std::filesystem::path& membership,
                                               const std::filesystem::path& root) {
  std::vector<std::filesystem::path> folders;
  std::filesystem::path group = own_path(membership);
  for (; group.has_relative_path(); group = group.parent_path()) folders.push_back(root / group.relative_path());
  folders.push_back(root);
  return folders;
}

}  // namespace slip::cli
