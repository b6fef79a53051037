// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace slip::cli {

// The commands of the program, one file each. Each adds itself with its options and a callback; main turns an Error
// thrown by a callback into the exit status. Each help text ends with examples.
void add_serve(CLI::App& app);
void add_generate(CLI::App& app);
void add_warmup(CLI::App& app);
void add_report(CLI::App& app);
void add_inspect(CLI::App& app);
void add_ledger(CLI::App& app);
void add_purge(CLI::App& app);
void add_profile(CLI::App& app);
void add_simulate(CLI::App& app);
void add_completion(CLI::App& app);
void add_version(CLI::App& app);

// Adds all commands, and the options of the program as a whole.
void add_commands(CLI::App& app);

}  // namespace slip::cli
