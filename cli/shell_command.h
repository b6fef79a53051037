// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace slip::cli {

// A word of a command line as a POSIX shell reads it. Pure.
std::string shell_quoted(const std::string& word);

// The command line that goes on with a warm-up: without --force, which would begin anew. `arguments`: as in
// /proc/self/cmdline, each with a zero byte behind it. Pure.
std::string resuming_command(const std::string& arguments);

}  // namespace slip::cli
