// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy_kind.h"

#include <algorithm>
#include <array>
#include <utility>

namespace slip {
namespace {

constexpr std::array<std::pair<PolicyKind, std::string_view>, 5> kNames{{{PolicyKind::kGoodput, "goodput"},
                                                                         {PolicyKind::kAdaServe, "adaserve"},
                                                                         {PolicyKind::kEqualGreedy, "equal_greedy"},
                                                                         {PolicyKind::kGlobalGreedy, "global_greedy"},
                                                                         {PolicyKind::kStaticTree, "static_tree"}}};

}  // namespace

std::string_view policy_name(PolicyKind kind) {
  const auto* found = std::find_if(kNames.begin(), kNames.end(), [&](const auto& one) { return one.first == kind; });
  return found->second;
}

std::optional<PolicyKind> parse_policy(std::string_view name) {
  const auto* found = std::find_if(kNames.begin(), kNames.end(), [&](const auto& one) { return one.second == name; });
  return found == kNames.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace slip
