// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

namespace slip {

struct LedgerBackup {
  std::uint64_t bytes = 0;
  std::int64_t requests = 0;  // rows of the table
};

// Copies a ledger, a running service's included, as it stands at one moment: SQLite's backup API, since a copied file
// lacks what its -wal holds. The copy is one file (0600, no WAL), checked page by page and durable when this returns;
// until then it is called `to`.part. Fail points `backup.*`. Error{kConflict} when `to` or its .part exists,
// Error{kInvalidArgument} when `to` is a file of `from`, Error{kNotFound | kInvalidArgument | kUnsupported} when `from`
// is no ledger of ours, Error{kDataLoss} for a damaged one, Error{kIo}; nothing is left behind then.
LedgerBackup back_up_ledger(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace slip
