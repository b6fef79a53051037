// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
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
  std::size_t queue_rows = 16384;             // rows drop and are counted beyond
  std::int64_t commit_interval_us = 500'000;  // kill −9 loses at most one second
  std::int64_t keep_requests_us = std::int64_t{30} * 24 * 3600 * 1'000'000;
  std::uint64_t max_bytes = std::uint64_t{1} << 30;
  int lock_patience_ms = 2000;      // that a write waits for another process; then rows wait, and failing() is true
  std::shared_ptr<DiskSpace> disk;  // nothing is written while it pauses; null: never
};

// The SQLite ledger: WAL, synchronous=FULL, one writer thread at the lowest nice level, batched transactions,
// `PRAGMA user_version` migrations. (Not SCHED_IDLE: a machine full of serving threads would starve the writer past the
// one second that a crash may cost.) The writer also watches every stream of requests for drift and records the alarms.
// While the disk refuses or is low, rows wait, then drop and are counted in engine_load.rows_dropped; it resumes by
// itself. While the file is gone from its path, rows drop and are counted, until that same file is back.
// Threads: record() from any thread, never waits.
class Ledger {
 public:
  explicit Ledger(LedgerOptions options);  // opens or creates (0600), migrates, starts the writer; Error{kDataLoss |
                                           // kIo | kUnsupported | kPermission}; a damaged file is left untouched
  ~Ledger();                               // flushes, truncates the WAL
  void record(LedgerRow row) noexcept;
  // After a crash between publish and commit: versions the store knows and the ledger does not are added.
  void reconcile(std::span<const DraftVersionRow> versions);
  void flush();  // returns once everything recorded so far is committed, or could not be
  // As the functions of ledger/purge.h, of everything recorded so far. What purge() deleted is overwritten with zeros,
  // in the log of writes (WAL) too. They wait for the writer. Error{kIo}: the disk refuses, or the file is gone;
  // Error{kUnavailable}: a reader keeps the WAL; the writer empties it once that reader is done. Any thread.
  std::vector<RequestId> calls_named(const std::string& http_id, const std::optional<TenantId>& tenant);
  std::uint64_t purge(const PurgeScope& scope);
  std::uint64_t dropped() const;
  bool failing() const;  // the last write was refused, or the file is gone from its path

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
