// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/api_keys.h"
#include "server/openai/purge.h"

namespace slip::cli {

// A purge as the operator typed it: like PurgeOrder, but with the API key's name. Applies to data that meets every
// condition set.
struct PurgeWish {
  std::string request, tenant;            // empty: any
  std::optional<std::int64_t> before_us;  // wall clock
};

// Error{kInvalidArgument} for a malformed request id or key name. Pure.
void check_names(const PurgeWish& wish);

// Error{kNotFound} for an unknown key name. Pure.
PurgeOrder order_of(const PurgeWish& wish, const ApiKeys& keys);

// The messages between command and service, one line each. Reading throws Error{kInvalidArgument}. Pure.
std::string to_line(const PurgeWish& wish);
PurgeWish read_wish(std::string_view line);
std::string to_line(const PurgeResult& result);
PurgeResult read_result(std::string_view line);

}  // namespace slip::cli
