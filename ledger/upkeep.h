// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ledger/database.h"

namespace slip {

struct UpkeepPolicy {
  std::int64_t keep_requests_us = 0;
  std::uint64_t max_bytes = 0;
};

// What keeps the ledger small, each call a transaction of its own: acceptance buckets of 10 s become 10 min after a day
// and days after 30; requests, their same-text scores and learning's minutes go after their time, and while the file
// holds more than `max_bytes` the oldest go first. Decisions, versions and drift events stay.
void keep_small(Database& database, const UpkeepPolicy& policy, std::int64_t now_us);

}  // namespace slip
