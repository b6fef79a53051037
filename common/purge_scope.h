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
  std::vector<RequestId> calls;           // empty: any, unless there is a name
  std::optional<TenantId> tenant;         // the API key that sent it
  std::optional<std::int64_t> before_us;  // finished before this wall-clock time
  NameHash name;                          // also the calls that their client named so; 0: none

  bool any_call() const { return calls.empty() && name == NameHash{}; }
  bool contains(RequestId call, NameHash call_name, TenantId sent_by, std::int64_t finished_us) const {
    return (any_call() || (name != NameHash{} && name == call_name) ||
            std::find(calls.begin(), calls.end(), call) != calls.end()) &&
           (!tenant || *tenant == sent_by) && (!before_us || finished_us < *before_us);
  }
};

}  // namespace slip
