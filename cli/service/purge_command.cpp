// SPDX-License-Identifier: Apache-2.0
#include "cli/service/purge_command.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoints/json_document.h"
#include "checkpoints/strict_json.h"
#include "common/counted.h"
#include "common/error.h"
#include "server/http/json_text.h"
#include "server/http/request_id.h"

namespace slip::cli {
namespace {

constexpr const char* kExampleId = "chatcmpl-000647c8bd5e2f10";

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, what, "command and service must be of one version");
}

std::string text_of(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return {};
  if (!found->is_string()) refuse(std::string(name) + " is no text");
  return found->get<std::string>();
}

std::optional<std::int64_t> number_of(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return std::nullopt;
  if (!found->is_number_integer()) refuse(std::string(name) + " is no whole number");
  return found->get<std::int64_t>();
}

std::string names_of(const ApiKeys& keys) {
  std::string names;
  for (const ApiKey& key : keys.all()) names += (names.empty() ? "" : ", ") + key.name;
  return names;
}

}  // namespace

void check_names(const PurgeCommand& command) {
  if (!command.request.empty() && !is_request_id(command.request)) {
    throw Error(ErrorCode::kInvalidArgument,
                "--request has " + std::to_string(command.request.size()) +
                    " bytes that name no request: an id is one word of 1 to 128 of A-Z "
                    "a-z 0-9 . _ : / + = - that begins with a letter or digit, such as " +
                    kExampleId,
                {}, "request");
  }
  if (command.tenant.size() <= ApiKey::kMaxNameBytes) return;
  throw Error(ErrorCode::kInvalidArgument,
              "--tenant has " + std::to_string(command.tenant.size()) + " bytes, and the name of an API key at most " +
                  std::to_string(ApiKey::kMaxNameBytes),
              {}, "tenant");
}

std::vector<PurgeOrder> orders_of(const PurgeCommand& command, const ApiKeys& keys, std::span<const TenantId> earlier) {
  if (command.tenant.empty()) return {{command.request, std::nullopt, command.before_us}};
  std::vector<TenantId> tenants(earlier.begin(), earlier.end());
  for (const ApiKey& key : keys.all()) {
    if (key.name == command.tenant && std::find(tenants.begin(), tenants.end(), key.tenant) == tenants.end())
      tenants.push_back(key.tenant);
  }
  if (tenants.empty()) {
    throw Error(ErrorCode::kNotFound, "no API key is or was named " + command.tenant,
                keys.empty() ? "name server.api_keys_file by -c" : "there are: " + names_of(keys), "tenant");
  }
  std::vector<PurgeOrder> orders;
  for (const TenantId tenant : tenants) orders.push_back({command.request, tenant, command.before_us});
  return orders;
}

PurgeResult carry_out_all(std::span<const PurgeOrder> orders,
                          const std::function<PurgeResult(const PurgeOrder&)>& purge) {
  PurgeResult all;
  for (const PurgeOrder& order : orders) {
    const PurgeResult one = purge(order);
    all.records += one.records;
    all.rows += one.rows;
    all.error = one.error;
    if (all.error) break;
  }
  return all;
}

std::string purge_text(const PurgeResult& result, const PurgeCommand& command, const std::filesystem::path& data_dir) {
  if (result.records + result.rows > 0) {
    return "purged " + counted(result.records, "record") + " of replay and " + counted(result.rows, "row") +
           " of the ledger; what was learned from them stays";
  }
  const std::string nothing = "found nothing to purge in " + data_dir.string();
  if (command.request.empty()) return nothing;
  return nothing + ": no finished request there has the id " + command.request +
         (command.tenant.empty() && !command.before_us ? "" : " and meets the other conditions") +
         "; an id is the answer's own, such as " + kExampleId + ", or the X-Request-Id that the client sent";
}

std::string to_line(const PurgeCommand& command) {
  JsonText json;
  json.begin_object();
  json.key("purge");
  json.begin_object();
  if (!command.request.empty()) json.member("request", command.request);
  if (!command.tenant.empty()) json.member("tenant", command.tenant);
  if (command.before_us) json.member("before_us", *command.before_us);
  json.end_object();
  json.end_object();
  return std::move(json).take();
}

PurgeCommand read_purge(std::string_view line) {
  const JsonDocument document(parse_strict_json(line, "the question"));
  const auto& asked = document.root();
  if (!asked.is_object() || !asked.contains("purge") || !asked["purge"].is_object()) refuse("nothing is asked for");
  const auto& order = asked["purge"];
  PurgeCommand command{text_of(order, "request"), text_of(order, "tenant"), number_of(order, "before_us")};
  // A purge without conditions would delete everything, so it is refused.
  if (command.request.empty() && command.tenant.empty() && !command.before_us) refuse("a purge without a condition");
  return command;
}

std::string to_line(const PurgeResult& result) {
  JsonText json;
  json.begin_object();
  json.member("records", result.records);
  json.member("rows", result.rows);
  if (result.error) {
    json.key("error");
    json.begin_object();
    json.member("code", static_cast<int>(result.error->code()));
    json.member("message", result.error->message());
    json.member("hint", result.error->hint());
    json.end_object();
  }
  json.end_object();
  return std::move(json).take();
}

PurgeResult read_result(std::string_view line) {
  const auto answer = parse_strict_json(line, "the service's answer");
  if (!answer.is_object()) refuse("the service's answer is no object");
  PurgeResult result;
  result.records = static_cast<std::uint64_t>(number_of(answer, "records").value_or(0));
  result.rows = static_cast<std::uint64_t>(number_of(answer, "rows").value_or(0));
  if (!answer.contains("error")) return result;
  const auto code = number_of(answer["error"], "code").value_or(-1);
  const bool known = code >= 0 && code <= static_cast<int>(ErrorCode::kInternal);
  result.error = Error(known ? static_cast<ErrorCode>(code) : ErrorCode::kInternal, text_of(answer["error"], "message"),
                       text_of(answer["error"], "hint"));
  return result;
}

}  // namespace slip::cli
