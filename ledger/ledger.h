// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "ledger/rows.h"

namespace slip {

struct LedgerOptions {
  std::filesystem::path file;                 // <data>/ledger.db
  std::size_t queue_rows = 16384;             // rows drop and are counted beyond
  std::int64_t commit_interval_us = 500'000;  // kill −9 loses at most one second
  std::int64_t keep_requests_us = std::int64_t{30} * 24 * 3600 * 1'000'000;
  std::uint64_t max_bytes = std::uint64_t{1} << 30;
};

// The SQLite ledger: WAL, synchronous=FULL, one writer thread at idle priority, batched transactions, `PRAGMA
// user_version` migrations. Threads: record() from any thread, never waits.
class Ledger {
 public:
  explicit Ledger(LedgerOptions options);  // opens or creates (0600), migrates, starts the writer; Error{kDataLoss |
                                           // kIo | kUnsupported}
  ~Ledger();                               // flushes, truncates the WAL
  void record(LedgerRow row) noexcept;
  void flush();  // returns once everything recorded so far is committed
  std::uint64_t dropped() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
