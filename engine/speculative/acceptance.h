// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "engine/speculative/proposal.h"

namespace slip {

// The target's transformed distribution after node `node`, after the last committed token for −1.
using TargetDistribution = std::function<const Distribution&(std::int32_t node)>;

// Decides one proposal by the target's distributions p, transformed as q is. `p_after` is called once for the last
// committed token and once for each node of the accepted path, and its result is read until the next call. `first`
// addresses the output index of the first proposed token; depth d uses output_index + d. A result that is used again,
// and a `p_after` passed by std::cref, keep it from allocating.
//
// Rejection (Leviathan et al., 2023, Alg. 1; recursive over siblings for trees): token x survives iff u < p(x)/q(x), u
// in [0, 1), so p(x) = 0 is never accepted; on refusal the next sibling is tested against norm(max(0, p − q)), and when
// none is left the token comes from that residual. A deterministic proposal counts as one-hot q. Output distribution:
// exactly p, whatever q. Coupled (shared Gumbel noise): the target's token is argmax(log p + g); a node is accepted iff
// it is that token. Output is a function of the seed alone. Pure. Siblings are tested in index order. What rejection
// asks of a proposer: each sibling's q is the distribution it was drawn from given its elder siblings (with
// replacement: equal q; without: q minus the elders, renormalised), and whether a node is proposed at all must not
// depend on the token drawn for it: dropping a sampled node for its low q biases the output. Coupled output does not
// depend on the proposal at all, so any draw method goes with it; Gumbel proposals go with nothing else.
void accept(const Proposal& proposal, const TargetDistribution& p_after, AcceptanceRule rule,
            const RandomAddress& first, VerifyResult& result);

// The one comparison of the rejection rule. Strict, so that p = 0 is never kept, not even at u = 0.
inline bool survives(double u, double p, double q) {
  return u < p / q;
}

}  // namespace slip
