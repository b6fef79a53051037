// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/ids.h"

namespace slip {

// Which finished calls a purge removes: those that meet every condition that is set. A call is what a client sent at
// once; all its choices carry the id of its first request.
struct PurgeScope {
  std::vector<RequestId> calls;           // one of these; empty: any
  std::optional<TenantId> tenant;         // the API key that sent it
  std::optional<std::int64_t> before_us;  // finished before this instant, wall clock

  bool contains(RequestId call, TenantId sent_by, std::int64_t finished_us) const {
    return (calls.empty() || std::find(calls.begin(), calls.end(), call) != calls.end()) &&
           (!tenant || *tenant == sent_by) && (!before_us || finished_us < *before_us);
  }
};

}  // namespace slip
