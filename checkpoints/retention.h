// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slip {

struct RetentionPolicy {
  int keep_last = 8;
  std::int64_t keep_younger_than_us = std::int64_t{7} * 24 * 3600 * 1'000'000;
  std::uint64_t max_bytes = std::uint64_t{4} << 30;  // over all drafts of the store
};

struct StoredVersion {
  std::uint64_t version = 0;
  std::int64_t created_us = 0;
  std::uint64_t bytes = 0;    // of its weights
  bool is_protected = false;  // live, current or last-known-good
};

// Which versions lose their weights (pure). First all except protected ones, the last N and those younger than the
// minimum age. Then, while one draft's `versions` (ascending) plus the `bytes_elsewhere` of other drafts exceed the
// limit, the oldest unprotected one.
std::vector<std::uint64_t> plan_retirement(std::span<const StoredVersion> versions, const RetentionPolicy& policy,
                                           std::int64_t now_us, std::uint64_t bytes_elsewhere);

}  // namespace slip
