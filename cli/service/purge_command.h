// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/api_keys.h"
#include "server/openai/purge.h"

namespace slip::cli {

// A purge as the operator typed it: like PurgeOrder, but with the API key's name. Applies to data that meets every
// condition set.
struct PurgeCommand {
  std::string request, tenant;            // empty: any
  std::optional<std::int64_t> before_us;  // wall clock
};

// Error{kInvalidArgument} for a malformed request id or key name. Pure.
void check_names(const PurgeCommand& command);

// One order for each tenant meant: of the key that has the name in `keys`, and `earlier`, whose keys had it. One order
// without a tenant if no name is given. Error{kNotFound} for an unknown name. Pure.
std::vector<PurgeOrder> orders_of(const PurgeCommand& command, const ApiKeys& keys, std::span<const TenantId> earlier);

// Carries out the orders in turn, up to the first that fails. Returns what was removed in all.
PurgeResult carry_out_all(std::span<const PurgeOrder> orders,
                          const std::function<PurgeResult(const PurgeOrder&)>& purge);

// What the command says of a purge that did not fail. Pure.
std::string purge_text(const PurgeResult& result, const PurgeCommand& command, const std::filesystem::path& data_dir);

// The messages between command and service, one line each. Reading throws Error{kInvalidArgument}. Pure.
std::string to_line(const PurgeCommand& command);
PurgeCommand read_purge(std::string_view line);
std::string to_line(const PurgeResult& result);
PurgeResult read_result(std::string_view line);

}  // namespace slip::cli
