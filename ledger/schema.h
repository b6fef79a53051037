// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ledger/database.h"

namespace slip {

// The application id in SQLite's header ("SLIP"). Without it a file is another program's and is not written.
inline constexpr int kLedgerApplicationId = 0x534C4950;

// Migration i upgrades a ledger from `PRAGMA user_version` i to i + 1. Never edit a published one; add another.
std::span<const char* const> ledger_migrations();

// Executes no statement that writes. Error{kPermission} for another program's database, Error{kDataLoss} as
// format_of().
void check_ours(Database& database);
// Applies the missing migrations, each in a transaction together with its version number. Error{kUnsupported} for a
// newer ledger, and those of format_of(). REQUIRES: check_ours().
void migrate(Database& database, std::span<const char* const> steps);
// The number of applied migrations. Error{kDataLoss} for a number that no version of the program wrote.
std::int64_t format_of(Database& database);

struct LedgerView {
  std::string name;
  std::string select;
};
// The views, each after those it uses. All read the single row of `report_scope` (since_us, topic, bucket_us). In the
// file it is a view that selects everything; a report replaces it by a temporary table. So
// `sqlite3 ledger.db 'select * from topics'` and `slipstream report topics` run the same text.
//
//   topics            one row per topic: α, the base draft's α on the same text, the paired gain with its 95 % interval
//   drift             the same by time bucket, topic, draft and version
//   trend             the same by time bucket and topic
//   drafts            each version with its parent, predicted and realised gain; refused candidates beside them
//   events            publications, refusals, rollbacks, drift alarms
//   learning_topics   one row per topic: learning's work and cost, and why it does or does not train
//   learning_states   minutes by topic and state of the governor
//   learning_trend    what learning did by time bucket and topic
//   positions         α of first choices by position in the proposal
//   ranks             the acceptance rate of each choice for a place, by draft, version and proposer
//   recent_requests   newest first
//   slo               one row per topic, tier and target: how many requests got the speed they asked for
std::span<const LedgerView> ledger_views();
// The SQL expression of the time step in microseconds, for the SQL expression of a span.
std::string bucket_for_span(const std::string& span_us);

// Creates the views in the file, replacing those whose text differs.
void refresh_views(Database& database);
// Creates temporary views of the same text for one connection, over the `report_scope` that the caller filled.
void create_temporary_views(Database& database);

}  // namespace slip
