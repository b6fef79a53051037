// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "engine/speculative/acceptance.h"

namespace slip::testing {

// The result for a proposal whose target distributions are all known: p[0] after the last committed token, p[1 + i]
// after node i.
inline VerifyResult accept_given(const Proposal& proposal, std::span<const Distribution> p, AcceptanceRule rule,
                                 const RandomAddress& first) {
  const TargetDistribution p_after = [p](std::int32_t node) -> const Distribution& {
    return p[static_cast<std::size_t>(node + 1)];
  };
  VerifyResult result;
  accept(proposal, p_after, rule, first, result);
  return result;
}

}  // namespace slip::testing
