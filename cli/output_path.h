// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace slip::cli {

// Refuses an output path that leads to a file which a service keeps: the ledger `database` and SQLite's files beside
// it, and the other files of their data directory. Error{kInvalidArgument}.
void refuse_kept_file_as_output(const std::filesystem::path& out, const std::filesystem::path& database);

}  // namespace slip::cli
