// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ledger/database.h"

namespace slip {

struct UpkeepPolicy {
  std::int64_t keep_requests_us = 0;
  std::uint64_t max_bytes = 0;
};

// Keep the ledger small, in one transaction. Acceptance buckets of 10 s are merged into 10 min after a day, and into
// days after 30. Requests, their same-text scores, the engine's load and learning's minutes are deleted after their
// retention time. While the file exceeds `max_bytes`, the oldest of each of these go first, and the oldest days of
// acceptance where these have more rows than there are requests. Decisions, versions and drift events stay.
void keep_small(Database& database, const UpkeepPolicy& policy, std::int64_t now_us);

}  // namespace slip
