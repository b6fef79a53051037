// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace slip {

// How the rows of a step are shared among the sequences.
enum class PolicyKind : std::uint8_t {
  kGoodput,       // most tokens per second; late sequences count more, and prompts wait for them
  kAdaServe,      // AdaServe (arXiv 2501.12162): first the nodes needed to be on time, then the likeliest
  kEqualGreedy,   // for comparison: each sequence's likeliest nodes, as many for one as for the others
  kGlobalGreedy,  // for comparison: the likeliest nodes of all sequences
  kStaticTree,    // for comparison: trees whose shape no drafted token changes, by SmartSpec's goodput
  kFcfs,          // for comparison: no speculation; the first that came, as many as the tightest target allows
  kStta,          // for comparison: the same, but those nearest to missing their target
};

// All policies and their names in `speculation.policy`.
inline constexpr std::array<std::pair<std::string_view, PolicyKind>, 7> kPolicyNames{
    {{"goodput", PolicyKind::kGoodput},
     {"adaserve", PolicyKind::kAdaServe},
     {"equal_greedy", PolicyKind::kEqualGreedy},
     {"global_greedy", PolicyKind::kGlobalGreedy},
     {"static_tree", PolicyKind::kStaticTree},
     {"fcfs", PolicyKind::kFcfs},
     {"stta", PolicyKind::kStta}}};

std::string_view policy_name(PolicyKind kind);
std::optional<PolicyKind> parse_policy(std::string_view name);

}  // namespace slip
