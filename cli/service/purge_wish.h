// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/api_keys.h"
#include "server/openai/purge.h"

namespace slip::cli {

// What the operator typed: as PurgeOrder, but for the API key's name. All that meets every condition that is set.
struct PurgeWish {
  std::string request, tenant;            // empty: any
  std::optional<std::int64_t> before_us;  // wall clock
};

// Error{kInvalidArgument} when no request or no API key can have such a name. Pure.
void check_names(const PurgeWish& wish);

// Error{kNotFound} when no key has that name. Pure.
PurgeOrder order_of(const PurgeWish& wish, const ApiKeys& keys);

// What the command and the service write to each other, a line each; reading throws Error{kInvalidArgument}. Pure.
std::string to_line(const PurgeWish& wish);
PurgeWish read_wish(std::string_view line);
std::string to_line(const PurgeResult& result);
PurgeResult read_result(std::string_view line);

}  // namespace slip::cli
