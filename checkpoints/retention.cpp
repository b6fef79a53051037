// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/retention.h"

#include <algorithm>

namespace slip {

std::vector<std::uint64_t> plan_retirement(std::span<const StoredVersion> versions, const RetentionPolicy& policy,
                                           std::int64_t now_us, std::uint64_t bytes_elsewhere) {
  const auto keep_last = static_cast<std::size_t>(std::max(policy.keep_last, 0));
  std::vector<std::uint64_t> retired;
  std::vector<StoredVersion> kept;
  std::uint64_t bytes = bytes_elsewhere;
  for (std::size_t i = 0; i < versions.size(); ++i) {
    const bool recent = i + keep_last >= versions.size();
    const bool young = now_us - versions[i].created_us < policy.keep_younger_than_us;
    if (versions[i].is_protected || recent || young) {
      kept.push_back(versions[i]);
      bytes += versions[i].bytes;
    } else {
      retired.push_back(versions[i].version);
    }
  }
  for (const auto& version : kept) {
    if (bytes <= policy.max_bytes) break;
    if (version.is_protected) continue;
    bytes -= version.bytes;
    retired.push_back(version.version);
  }
  return retired;
}

}  // namespace slip
