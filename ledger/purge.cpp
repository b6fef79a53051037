// SPDX-License-Identifier: Apache-2.0
#include "ledger/purge.h"

#include <limits>

#include "common/error.h"

namespace slip {
namespace {

constexpr int kMostCallsOfOneName = 4096;

// The WHERE clause. Parameters: 1 call, 2 whether to filter by tenant, 3 tenant, 4 time.
std::string condition_of(bool of_one_call) {
  return std::string(of_one_call ? "call_id = ?1" : "?1 = ?1") + " AND (?2 = 0 OR tenant = ?3) AND finished_us < ?4";
}

// Returns the number of rows. A trigger that an operator added to the ledger may undo a deletion without an error.
template <class... Values>
std::uint64_t erase(Database& database, const std::string& table, const std::string& condition,
                    const Values&... values) {
  const std::string rows = " FROM " + table + " WHERE " + condition;
  Statement(database, "DELETE" + rows).run(values...);
  const auto n = static_cast<std::uint64_t>(sqlite3_changes(database.get()));
  Statement left(database, "SELECT 1" + rows + " LIMIT 1");
  left.bind_all(values...);
  if (!left.step()) return n;
  throw Error(ErrorCode::kDataLoss, database.name() + " keeps rows of its table " + table + " that a purge deletes",
              "drop the triggers that were added to it, and purge again");
}

std::uint64_t delete_rows(Database& database, const PurgeScope& scope, const std::optional<RequestId>& call) {
  const std::string condition = condition_of(call.has_value());
  const std::uint64_t id = call.value_or(RequestId{}).value, tenant = scope.tenant.value_or(TenantId{}).value;
  const int of_tenant = scope.tenant ? 1 : 0;
  const std::int64_t before = scope.before_us.value_or(std::numeric_limits<std::int64_t>::max());
  erase(database, "same_text", "request_id IN (SELECT call_id FROM requests WHERE " + condition + ")", id, of_tenant,
        tenant, before);
  const std::uint64_t n = erase(database, "requests", condition, id, of_tenant, tenant, before);
  // Also delete scores whose request row was dropped earlier.
  if (call && !scope.tenant && !scope.before_us) erase(database, "same_text", "request_id = ?", id);
  if (!call && !scope.tenant) erase(database, "same_text", "at_us < ?", before);
  return n;
}

}  // namespace

std::uint64_t hash_http_id(const std::string& http_id) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : http_id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return hash;
}

// Rows of earlier formats have no hash and are compared as text.
std::vector<RequestId> calls_named(const Database& database, const std::string& http_id,
                                   const std::optional<TenantId>& tenant) {
  Statement find(database,
                 "SELECT DISTINCT call_id FROM requests WHERE (http_id_hash = ?1 OR http_id_hash IS NULL) AND "
                 "http_id = ?2 AND (?3 = 0 OR tenant = ?4) LIMIT " +
                     std::to_string(kMostCallsOfOneName));
  find.bind_all(hash_http_id(http_id), http_id, tenant ? 1 : 0, tenant.value_or(TenantId{}).value);
  std::vector<RequestId> calls;
  while (find.step()) calls.push_back({static_cast<std::uint64_t>(find.integer(0))});
  return calls;
}

std::vector<TenantId> tenants_named(const Database& database, const std::string& name) {
  Statement find(database, "SELECT tenant FROM tenant_names WHERE name = ?");
  find.bind_all(name);
  std::vector<TenantId> tenants;
  while (find.step()) tenants.push_back({static_cast<std::uint64_t>(find.integer(0))});
  return tenants;
}

std::uint64_t purge_rows(Database& database, const PurgeScope& scope) {
  Transaction transaction(database);
  std::uint64_t n = 0;
  if (scope.calls.empty()) n = delete_rows(database, scope, std::nullopt);
  for (const RequestId call : scope.calls) n += delete_rows(database, scope, call);
  if (scope.calls.empty() && scope.tenant && !scope.before_us)
    erase(database, "tenant_names", "tenant = ?", scope.tenant->value);
  transaction.commit();
  return n;
}

}  // namespace slip
