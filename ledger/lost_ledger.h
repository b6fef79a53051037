// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace slip {

// "DIR/ledger.db is missing" or "… is empty", if `data_dir` has drafts or replay records, to which a ledger belongs;
// else nullopt. SQLite would begin a new one there without a word.
std::optional<std::string> lost_ledger(const std::filesystem::path& data_dir);

}  // namespace slip
