// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy_kind.h"

#include <algorithm>

namespace slip {

std::string_view policy_name(PolicyKind kind) {
  return std::find_if(kPolicyNames.begin(), kPolicyNames.end(), [&](const auto& one) { return one.second == kind; })
      ->first;
}

std::optional<PolicyKind> parse_policy(std::string_view name) {
  const auto* found =
      std::find_if(kPolicyNames.begin(), kPolicyNames.end(), [&](const auto& one) { return one.first == name; });
  return found == kPolicyNames.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace slip
