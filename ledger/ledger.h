// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/disk_space.h"
#include "common/purge_scope.h"
#include "ledger/rows.h"

namespace slip {

struct LedgerOptions {
  std::filesystem::path file;                 // <data>/ledger.db
  std::size_t queue_rows = 16384;             // further rows are dropped and counted
  std::int64_t commit_interval_us = 500'000;  // a crash (kill −9) loses at most one second
  std::int64_t keep_requests_us = std::int64_t{30} * 24 * 3600 * 1'000'000;
  std::uint64_t max_bytes = std::uint64_t{1} << 30;
  // Longest wait of a write for another process; then rows wait, and failing() is true
  int lock_patience_ms = 2000;
  std::shared_ptr<DiskSpace> disk;  // nothing is written while it pauses; null: never pauses
};

// The SQLite ledger: WAL, synchronous=FULL, one writer thread at the lowest nice level, batched transactions, `PRAGMA
// user_version` migrations. (Not SCHED_IDLE: on a machine full of serving threads the writer would starve for more than
// the one second that a crash may cost.) The writer also checks every stream of requests for drift and records the
// alarms.
// While the disk fails or is low, rows wait; then they are dropped and counted in engine_load.rows_dropped. Writing
// resumes by itself. While the file is missing from its path, rows are dropped and counted, until that same file is
// back. Threads: record() from any thread, never waits.
class Ledger {
 public:
  explicit Ledger(LedgerOptions options);  // opens or creates (0600), migrates, starts the writer; Error{kDataLoss |
                                           // kIo | kUnsupported | kPermission}; a damaged file is left untouched
  ~Ledger();                               // flushes, truncates the WAL
  void record(LedgerRow row) noexcept;
  void count_dropped(std::uint64_t rows) noexcept;  // rows that the caller could not make, for lack of memory
  // Adds versions that the store knows and the ledger does not, after a crash between publish and commit. A newer one
  // with other weights replaces that of its number. `versions` are all of the store. Returns the drafts whose newest
  // version at the ledger's opening is not among them, each with that version: it was deleted.
  std::map<std::string, std::uint64_t> reconcile(std::span<const DraftVersionRow> versions);
  // Whether one of the last 10,000 requests before the ledger's opening named its topic.
  bool any_labelled() const;
  void flush();  // returns once all rows so far are committed or have failed
  // As the functions in ledger/purge.h, applied to all rows recorded so far. Purged rows are overwritten with zeros, in
  // the WAL too. All wait for the writer. Error{kIo}: the disk fails, or the file is missing. Error{kUnavailable}: a
  // reader holds the WAL; the writer empties it once that reader is done. Any thread.
  std::vector<RequestId> calls_named(const std::string& http_id, const std::optional<TenantId>& tenant);
  std::vector<TenantId> tenants_named(const std::string& name);
  std::uint64_t purge(const PurgeScope& scope);
  std::uint64_t dropped() const;
  bool failing() const;  // the last write failed, or the file is missing from its path

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
