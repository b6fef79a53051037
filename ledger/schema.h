// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ledger/database.h"

namespace slip {

// Marks the file as ours ("SLIP" in SQLite's header), so that another program's database is never written into.
inline constexpr int kLedgerApplicationId = 0x534C4950;

// Step i brings a ledger of `PRAGMA user_version` i to i + 1. Published steps are never edited, only followed.
std::span<const char* const> ledger_migrations();

// Applies what is missing, each step in a transaction of its own together with its version. Error{kUnsupported} for a
// ledger from the future, Error{kPermission} for another program's database.
void migrate(Database& database, std::span<const char* const> steps);
// Steps that were taken. Error{kDataLoss} for a number that no version of the program wrote.
std::int64_t format_of(Database& database);

struct LedgerView {
  std::string name;
  std::string select;
};
// In the order in which they stand on each other. All read the one row of `report_scope` (since_us, topic, bucket_us):
// in the file it is a view that says "everything", a report puts a temporary table in its place. So
// `sqlite3 ledger.db 'select * from topics'` and `slipstream report topics` run the same text.
//
//   topics            one row a topic: α, the base draft's α on the same text, the paired gain with its 95 % interval
//   drift             the same by time bucket, topic, draft and version
//   trend             the same by time bucket and topic
//   drafts            each version with its parent, predicted and realised gain; refused candidates beside them
//   events            publications, refusals, rollbacks, drift alarms
//   learning_topics   one row a topic: what learning did, what it cost, and why it does or does not train
//   learning_states   minutes by topic and state: what the governor allowed
//   learning_trend    what learning did by time bucket and topic
//   positions         α by position in the proposal
//   recent_requests   newest first
std::span<const LedgerView> ledger_views();
// The time step for a span: the SQL expression of a bucket in microseconds, from the SQL expression of a span.
std::string bucket_for_span(const std::string& span_us);

// Creates the views in the file, replacing those whose text differs.
void refresh_views(Database& database);
// For one connection: temporary views of the same text over `report_scope` as the caller filled it.
void create_temporary_views(Database& database);

}  // namespace slip
