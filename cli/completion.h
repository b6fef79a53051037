// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace slip::cli {

// Scripts that complete commands, options and the values an option chooses from, written from the program's own
// description, so that they cannot fall behind it. What has no fixed values completes file names.
std::string bash_completion(const CLI::App& program);
std::string zsh_completion(const CLI::App& program);

}  // namespace slip::cli
