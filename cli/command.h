// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace slip::cli {

// Each command adds itself to the program with its options and a callback that does the work; an Error thrown from a
// callback becomes the exit status in main. One file a command.
void add_serve(CLI::App& app);
void add_generate(CLI::App& app);
void add_warmup(CLI::App& app);
void add_report(CLI::App& app);

}  // namespace slip::cli
