// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "engine/speculative/proposal.h"

namespace slip {

// The target's transformed distribution after node `node`; −1: after the last committed token.
using TargetDistribution = std::function<const Distribution&(std::int32_t node)>;

// Verifies one proposal against the target's distributions p, transformed as q is. `p_after` is called once for the
// last committed token and once for each node of the accepted path; its result is read until the next call. `first`
// addresses the output index of the first proposed token; depth d uses output_index + d. Does not allocate when
// `result` is reused and `p_after` is passed by std::cref. Pure.
//
// Rejection (Leviathan et al., 2023, Alg. 1; recursive over siblings for trees): token x is accepted iff u < p(x)/q(x),
// u in [0, 1), so a token with p(x) = 0 never is. After a rejection, the next sibling is tested against norm(max(0, p −
// q)); when none is left, the token is drawn from that residual. A deterministic proposal counts as one-hot q. Siblings
// are tested in index order. The output distribution is exactly p, whatever q, under two conditions:
//  - Each sibling's q is the distribution it was drawn from given its elder siblings. With replacement: equal q;
//    without: q minus the elders, renormalised.
//  - Whether a node is proposed does not depend on the token drawn for it. Dropping a sampled node for its low q biases
//    the output.
//
// Coupled (shared Gumbel noise): the target's token is argmax(log p + g), and a node is accepted iff it is that token.
// The output is a function of the seed alone and does not depend on the proposal, so every draw method fits. Gumbel
// proposals require this rule.
void accept(const Proposal& proposal, const TargetDistribution& p_after, AcceptanceRule rule,
            const RandomAddress& first, VerifyResult& result);

// The comparison of the rejection rule. Strict, so that p = 0 is rejected even at u = 0.
inline bool survives(double u, double p, double q) {
  return u < p / q;
}

}  // namespace slip
