// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/ids.h"

namespace slip {

// What is to be removed of what the service keeps: all that meets every condition that is set.
struct PurgeOrder {
  // An answer's id ("chatcmpl-…") or its X-Request-Id; empty: any request.
  std::string request;
  std::optional<TenantId> tenant;         // of the API key that sent it
  std::optional<std::int64_t> before_us;  // finished before this instant, wall clock
};

struct PurgeResult {
  std::uint64_t records = 0;   // of replay: prompts and answers
  std::uint64_t rows = 0;      // of the ledger: figures
  std::optional<Error> error;  // why it is not done, or not to its end; kIo: it may be done later
};

// Begins a purge; `done` is called once, on another thread. Any thread; waits for nothing. Error{kOverloaded}.
using PurgeDoor = std::function<void(PurgeOrder order, std::function<void(PurgeResult)> done)>;

// The request that an answer's id names, as http_id() writes it; nullopt for any other text.
std::optional<RequestId> request_of_http_id(std::string_view id);

}  // namespace slip
