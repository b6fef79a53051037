// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "engine/speculative/acceptance.h"

namespace slip::testing {

// The verdict on a proposal whose target distributions are all known: p[0] after the last committed token, p[1 + i]
// after node i.
inline Verdict accept_given(const Proposal& proposal, std::span<const Distribution> p, AcceptanceRule rule,
                            const RandomAddress& first) {
  const TargetLaw p_after = [p](std::int32_t node) -> const Distribution& {
    return p[static_cast<std::size_t>(node + 1)];
  };
  Verdict verdict;
  accept(proposal, p_after, rule, first, verdict);
  return verdict;
}

}  // namespace slip::testing
