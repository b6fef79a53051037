// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

namespace slip {

struct LedgerBackup {
  std::uint64_t bytes = 0;
  std::int64_t requests = 0;  // rows of the table
};

// Back up a ledger as of one moment, even while a service runs. Uses SQLite's backup API, since a plain file copy
// misses the content of the -wal file. The copy is one file (0600, no WAL), checked page by page and durable when this
// returns. Until then it is named `to`.part; what a backup that was killed left there is replaced. Fail points
// `backup.*`. Error{kConflict} when `to` exists, or another backup's or another program's .part,
// Error{kInvalidArgument} when `to` is a file of `from`, Error{kNotFound | kInvalidArgument | kUnsupported} when `from`
// is not one of our ledgers, Error{kDataLoss} for a damaged one, Error{kIo}. An error leaves no file behind.
LedgerBackup back_up_ledger(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace slip
