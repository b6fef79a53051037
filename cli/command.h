// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace slip::cli {

// Each command adds itself to the program with its options and a callback that does the work; an Error thrown from a
// callback becomes the exit status in main. One file a command; each help ends with examples.
void add_serve(CLI::App& app);
void add_generate(CLI::App& app);
void add_warmup(CLI::App& app);
void add_report(CLI::App& app);
void add_inspect(CLI::App& app);
void add_ledger(CLI::App& app);
void add_purge(CLI::App& app);
void add_completion(CLI::App& app);
void add_version(CLI::App& app);

// All of them, and what holds for the program as a whole.
void add_commands(CLI::App& app);

}  // namespace slip::cli
