// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/ids.h"

namespace slip {

// The scope of a purge: the finished calls that meet every condition set. A call is one client request; all its choices
// carry the id of its first engine request.
struct PurgeScope {
  std::vector<RequestId> calls;           // empty: any
  std::optional<TenantId> tenant;         // the API key that sent it
  std::optional<std::int64_t> before_us;  // finished before this wall-clock time

  bool contains(RequestId call, TenantId sent_by, std::int64_t finished_us) const {
    return (calls.empty() || std::find(calls.begin(), calls.end(), call) != calls.end()) &&
           (!tenant || *tenant == sent_by) && (!before_us || finished_us < *before_us);
  }
};

}  // namespace slip
