// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace slip::cli {

// Refuses an output path that leads to a file which a service keeps: the ledger `database` and SQLite's files beside
// it, and the other files of their data directory. Error{kInvalidArgument} naming `option`, which gave the path.
void refuse_kept_file_as_output(const std::filesystem::path& out, const std::filesystem::path& database,
                                const std::string& option);
// Refuses an output path that leads to `input`, a file that the command reads. Error{kInvalidArgument} naming `option`.
void refuse_input_as_output(const std::filesystem::path& out, const std::filesystem::path& input,
                            const std::string& option);

}  // namespace slip::cli
