// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/purge_scope.h"
#include "ledger/database.h"

namespace slip {

// What rows are found by: SQLite leaves copies of an index's keys behind when it splits a page, so no text is indexed.
// FNV-1a, 64 bits; stored, so never change it.
std::uint64_t hash_http_id(const std::string& http_id);

// The calls whose client named them `http_id` (X-Request-Id), of one tenant or of all; at most 4,096.
std::vector<RequestId> calls_named(const Database& database, const std::string& http_id,
                                   const std::optional<TenantId>& tenant);

// Deletes the rows about single calls of a scope, a transaction of its own; how many of `requests`. Counts by topic and
// time stay: they name no request. Rows from before tenants were recorded belong to none. Error{kIo}: nothing was
// deleted.
std::uint64_t purge_rows(Database& database, const PurgeScope& scope);

}  // namespace slip
