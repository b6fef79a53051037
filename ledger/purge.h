// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/purge_scope.h"
#include "ledger/database.h"

namespace slip {

// The hash by which rows are found. The text itself is not indexed, since SQLite leaves copies of index keys behind
// when it splits a page. FNV-1a, 64 bits; stored, so never change it.
std::uint64_t hash_http_id(const std::string& http_id);

// The calls with client-given id `http_id` (X-Request-Id), of one tenant or of all; at most 4,096.
std::vector<RequestId> calls_named(const Database& database, const std::string& http_id,
                                   const std::optional<TenantId>& tenant);

// The tenants whose API keys have or had this name.
std::vector<TenantId> tenants_named(const Database& database, const std::string& name);

// Deletes the rows of a scope's calls in one transaction; returns the number of `requests` rows. Aggregates by topic
// and time stay, since they identify no request. Rows older than the tenant column belong to no tenant. A scope of all
// that a tenant sent includes the tenant's names. Error{kIo}, or Error{kDataLoss} if the ledger keeps rows in spite of
// a deletion: nothing was deleted.
std::uint64_t purge_rows(Database& database, const PurgeScope& scope);

}  // namespace slip
