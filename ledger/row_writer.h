// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ledger/database.h"
#include "ledger/drift_detector.h"
#include "ledger/rows.h"

namespace slip {

inline constexpr std::int64_t kAcceptanceBucketUs = 10'000'000;

// Writes rows into tables, inside the caller's transaction. A request also updates its acceptance buckets and the drift
// monitor, whose alarms are written as rows. Threads: the writer's.
class RowWriter {
 public:
  explicit RowWriter(Database& database);
  void write(const LedgerRow& row);  // Error{kInvalidArgument}: this row is not valid; others may be
  void write_dropped(std::int64_t rows, std::int64_t now_us);

 private:
  void insert(const RequestRow& row);
  void insert(const SameTextRow& row);
  void insert(const DraftVersionRow& row);
  void insert(const CanaryRow& row);
  void insert(const DriftEventRow& row);
  void insert(const EngineLoadRow& row);
  void insert(const LearningRow& row);
  void add_load(const EngineLoadRow& row, std::int64_t rows_dropped);
  void add_acceptance(const RequestRow& row);
  void recall_streams(Database& database);

  Statement request_, acceptance_, same_text_, version_, canary_, drift_, load_, learning_;
  DriftMonitor drift_monitor_;
};

}  // namespace slip
