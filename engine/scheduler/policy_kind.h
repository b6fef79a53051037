// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace slip {

// How the rows of a step are shared among the sequences.
enum class PolicyKind : std::uint8_t {
  kGoodput,       // most tokens per second; late sequences count more, and prompts wait for them
  kAdaServe,      // AdaServe (arXiv 2501.12162): first the nodes needed to be on time, then the likeliest
  kEqualGreedy,   // for comparison: each sequence's likeliest nodes, as many for one as for the others
  kGlobalGreedy,  // for comparison: the likeliest nodes of all sequences
  kStaticTree,    // for comparison: trees whose shape no drafted token changes, by SmartSpec's goodput
};

std::string_view policy_name(PolicyKind kind);
std::optional<PolicyKind> parse_policy(std::string_view name);

}  // namespace slip
