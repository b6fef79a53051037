// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "engine/speculative/proposal.h"

namespace slip {

// Returns the target's transformed distribution for the token that follows node `node`; −1: for the token that follows
// the last committed one. The reference stays valid until the next call.
using TargetDistribution = std::function<const Distribution&(std::int32_t node)>;

// Verifies one proposal against the target: finds the accepted path and the token that the target adds to it. p and q,
// the target's and the draft's distributions, have passed the same transform. `p_after` is called once for the last
// committed token and once for each node of the accepted path. `first` addresses the random numbers of the first
// proposed token; a node at depth d, counted from 0, uses output_index + d. Does not allocate when `result` is reused
// and `p_after` is passed by std::cref. Pure; any thread.
//
// Errors: what `p_after` throws for the last committed token. What it throws for an accepted node is dropped, and the
// path ends there, by end_with_accepted(). If the node's token ends the answer, plain decoding never meets that error.
// Otherwise the next verification meets it, after the same token.
//
// kRejection (Leviathan et al., 2023, Alg. 1; for trees, repeated over siblings). With u uniform in [0, 1), token x is
// accepted iff u < p(x)/q(x), so never if p(x) = 0. A rejection replaces p by the residual norm(max(0, p − q)). The
// next sibling, in index order, is tested against the residual. When no sibling is left, the target's token is drawn
// from it. A deterministic proposal counts as one-hot q. The output has exactly the distribution p, whatever q is,
// under three conditions:
//  - The q stored with a sibling is the distribution that it was drawn from, given the siblings before it. Drawn with
//    replacement, all siblings have the same q. Without, the tokens of earlier siblings are removed from q and the rest
//    is renormalised.
//  - Whether a node is proposed does not depend on the token drawn for it. Dropping a sampled node because its q is low
//    would bias the output.
//  - If it depends on another token that is not tested, no later step draws by the random number of that token.
//
// kCoupled (Gumbel noise g shared by target and draft, arXiv 2408.07978). The target's token is argmax(log p + g), and
// a node is accepted iff it has that token. The output depends on p and the seed, never on the proposal, so every draw
// method is allowed. REQUIRES: this rule for DrawMethod::kGumbel.
void accept(const Proposal& proposal, const TargetDistribution& p_after, AcceptanceRule rule,
            const RandomAddress& first, VerifyResult& result);

// Makes the last accepted node the token that the target adds, since there is no distribution after it. REQUIRES: a
// node is accepted.
void end_with_accepted(const Proposal& proposal, VerifyResult& result);

// The acceptance test of kRejection. Strict, so that a token with p = 0 is rejected even at u = 0. REQUIRES: q > 0.
inline bool survives(double u, double p, double q) {
  return u < p / q;
}

}  // namespace slip
