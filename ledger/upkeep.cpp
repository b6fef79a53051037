// SPDX-License-Identifier: Apache-2.0
#include "ledger/upkeep.h"

#include <algorithm>

#include "common/error.h"

namespace slip {
namespace {

constexpr std::int64_t kMinuteUs = 60'000'000;
constexpr std::int64_t kDayUs = 24 * 60 * kMinuteUs;
constexpr int kMaxTrims = 64;  // each trims a twentieth: more than enough to halve the file twice

struct Coarsening {
  std::int64_t older_than_us, width_us;
};
constexpr Coarsening kCoarsenings[] = {{kDayUs, 10 * kMinuteUs}, {30 * kDayUs, kDayUs}};

// The limit is rounded to a wide bucket's border, so that no wide bucket is built from part of its time.
void coarsen(Database& database, const Coarsening& to, std::int64_t now_us) {
  const std::int64_t border = (now_us - to.older_than_us) / to.width_us * to.width_us;
  Statement merge(database, R"sql(
INSERT INTO acceptance
SELECT bucket_us / ?1 * ?1, ?1, topic, draft, version, position, rule, temperature_range, proposer, rank,
       SUM(reached), SUM(accepted), SUM(first_rejections)
FROM acceptance WHERE bucket_width_us < ?1 AND bucket_us < ?2 GROUP BY 1, 3, 4, 5, 6, 7, 8, 9, 10
ON CONFLICT DO UPDATE SET reached = reached + excluded.reached, accepted = accepted + excluded.accepted,
  first_rejections = first_rejections + excluded.first_rejections)sql");
  merge.run(to.width_us, border);
  Statement drop(database, "DELETE FROM acceptance WHERE bucket_width_us < ?1 AND bucket_us < ?2");
  drop.run(to.width_us, border);
}

void drop_older(Database& database, std::int64_t border_us) {
  Statement(database, "DELETE FROM requests WHERE finished_us < ?").run(border_us);
  Statement(database, "DELETE FROM same_text WHERE at_us < ?").run(border_us);
  Statement(database, "DELETE FROM learning WHERE at_us < ?").run(border_us);
  Statement(database, "DELETE FROM engine_load WHERE bucket_us < ?").run(border_us);
  Statement(database, "DELETE FROM canary_decisions WHERE kind = 'undecided' AND at_us < ?").run(border_us);
}

std::uint64_t used_bytes(Database& database) {
  const std::int64_t pages = database.integer("PRAGMA page_count") - database.integer("PRAGMA freelist_count");
  return static_cast<std::uint64_t>(pages * database.integer("PRAGMA page_size"));
}

// The first twentieth of what `column` spans.
void drop_first_twentieth(Database& database, const std::string& rows, const std::string& column) {
  database.execute("DELETE FROM " + rows + " AND " + column + " <= (SELECT MIN(" + column + ") + (MAX(" + column +
                   ") - MIN(" + column + ")) / 20 FROM " + rows + ")");
}

// Days of acceptance outlive the requests that they were counted from, and are a few rows each. So they go only where
// they are more than the requests, and then alone.
void drop_oldest_twentieth(Database& database) {
  const std::string days = "acceptance WHERE bucket_width_us = " + std::to_string(kDayUs);
  const std::int64_t n_days = database.integer("SELECT COUNT(*) FROM " + days);
  if (n_days > database.integer("SELECT COUNT(*) FROM requests")) {
    return drop_first_twentieth(database, days, "bucket_us");
  }
  for (const char* table : {"requests", "same_text", "learning"}) {
    drop_first_twentieth(database, std::string(table) + " WHERE true", "id");
  }
  drop_first_twentieth(database, "engine_load WHERE true", "bucket_us");
}

}  // namespace

void keep_small(Database& database, const UpkeepPolicy& policy, std::int64_t now_us) {
  Transaction transaction(database);
  for (const auto& to : kCoarsenings) coarsen(database, to, now_us);
  drop_older(database, now_us - policy.keep_requests_us);
  for (int i = 0; i < kMaxTrims && used_bytes(database) > policy.max_bytes; ++i) drop_oldest_twentieth(database);
  transaction.commit();
  database.execute("PRAGMA incremental_vacuum");
}

}  // namespace slip
