// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "ledger/database.h"
#include "ledger/drift_detector.h"
#include "ledger/rows.h"

namespace slip {

// Width of the time buckets that acceptance and engine load are summed in.
inline constexpr std::int64_t kAcceptanceBucketUs = 10'000'000;

// Writes rows into the ledger's tables, inside the caller's transaction. The row of a request also adds to the
// acceptance buckets. Its drift monitor is fed apart from that, since a transaction can fail and be tried again.
// Threads: the writer's.
class RowWriter {
 public:
  // Feeds the drift monitor with the latest 2,000 requests in `database`, which outlives this object.
  explicit RowWriter(Database& database);
  // Error{kInvalidArgument}: this row is invalid, later ones can still be written. Error{kDataLoss | kIo}: the database
  // failed.
  void write(const LedgerRow& row);
  // Feeds the drift monitor; to be called once for each row. The alarm that the row raises is another row to write.
  std::optional<DriftEventRow> observe(const LedgerRow& row);
  // Adds `rows` dropped rows to the load bucket of `now_us` (wall clock). Same errors.
  void write_dropped(std::int64_t rows, std::int64_t now_us);

 private:
  void insert(const RequestRow& row);
  void insert(const SameTextRow& row);
  void insert(const DraftVersionRow& row);
  void insert(const CanaryRow& row);
  void insert(const DriftEventRow& row);
  void insert(const EngineLoadRow& row);
  void insert(const LearningRow& row);
  void insert(const TenantNameRow& row);
  void add_load(const EngineLoadRow& row, std::int64_t rows_dropped);
  void add_acceptance(const RequestRow& row);
  void recall_streams(Database& database);

  Database& database_;
  Statement request_, acceptance_, same_text_, version_, canary_, drift_, load_, learning_, tenant_name_;
  DriftMonitor drift_monitor_;
};

}  // namespace slip
