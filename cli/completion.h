// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace slip::cli {

// Shell completion scripts for commands, options and fixed option values, generated from the program's own description
// so that they stay current. Other values complete file names.
std::string bash_completion(const CLI::App& program);
std::string zsh_completion(const CLI::App& program);

}  // namespace slip::cli
