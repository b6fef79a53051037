// SPDX-License-Identifier: Apache-2.0
#include "cli/config/reload.h"

#include <algorithm>
#include <map>

namespace slip::cli {
namespace {

bool same_names(const std::vector<Topic>& a, const std::vector<Topic>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Topic& one, const Topic& other) { return one.name == other.name; });
}

// True if either is set; one without the other is an error that load_tls() reports.
bool wants_tls(const ServerOptions& server) {
  return !server.tls_certificate.empty() || !server.tls_key.empty();
}

std::vector<std::string> differing_keys(const ServeConfig& a, const ServeConfig& b) {
  const auto before = effective_values(a), after = effective_values(b);
  std::vector<std::string> keys;
  for (const auto& [key, value] : after) {
    const auto found = before.find(key);
    if (found == before.end() || found->second != value) keys.push_back(key);
  }
  for (const auto& [key, value] : before) {
    if (!after.contains(key)) keys.push_back(key);
  }
  return keys;
}

}  // namespace

ReloadPlan plan_reload(const ServeConfig& running, const ServeConfig& file, bool started_with_learning) {
  ReloadPlan plan{.next = running};
  plan.next.log = file.log;
  plan.next.min_free_bytes = file.min_free_bytes;
  if (started_with_learning) plan.next.learning = file.learning;
  if (same_names(running.topics, file.topics)) plan.next.topics = file.topics;
  plan.next.api_keys_file = file.api_keys_file;
  plan.next.server.key_limits = file.server.key_limits;
  if (wants_tls(running.server) == wants_tls(file.server)) {
    plan.next.server.tls_certificate = file.server.tls_certificate;
    plan.next.server.tls_key = file.server.tls_key;
  }
  plan.changed = differing_keys(running, plan.next);
  plan.needs_restart = differing_keys(plan.next, file);
  plan.file_tiers = file.slo_tiers;
  return plan;
}

std::string listed(const std::vector<std::string>& keys) {
  std::string text;
  for (const auto& key : keys) text += (text.empty() ? "" : ", ") + key;
  return text.empty() ? "nothing" : text;
}

}  // namespace slip::cli
