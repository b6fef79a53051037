// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "cli/command.h"

namespace slip::cli {

// Runs a command of the program in this process and returns its standard output. Throws what the command throws.
inline std::string command_output(std::vector<std::string> arguments) {
  CLI::App app;
  add_commands(app);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  ::testing::internal::CaptureStdout();
  try {
    app.parse(arguments);
  } catch (...) {
    ::testing::internal::GetCapturedStdout();
    throw;
  }
  return ::testing::internal::GetCapturedStdout();
}

}  // namespace slip::cli
