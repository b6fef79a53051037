// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/error.h"
#include "common/ids.h"

namespace slip {

// The scope of a deletion: stored data that meets every condition set.
struct PurgeOrder {
  // An answer's id ("chatcmpl-…") or its X-Request-Id; empty: any request.
  std::string request;
  std::optional<TenantId> tenant;         // the API key that sent it
  std::optional<std::int64_t> before_us;  // finished before this wall-clock time
};

struct PurgeResult {
  std::uint64_t records = 0;   // of replay: prompts and answers
  std::uint64_t rows = 0;      // of the ledger: figures
  std::optional<Error> error;  // set if the purge is incomplete; kIo: retry later
};

// Starts a purge. `done` is called once, on another thread. Any thread; never waits. Error{kOverloaded}.
using PurgeFunction = std::function<void(PurgeOrder order, std::function<void(PurgeResult)> done)>;

}  // namespace slip
