// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "engine/speculative/observation.h"

namespace slip {

// The K largest raw logits as log p at T = 1, and the log of the remaining mass.
TopK observe_row(std::span<const float> logits, std::int32_t k);

// Fills observation.{committed, targets, n_accepted, rejected} from the verification of `proposal`. `committed` are the
// tokens added to the answer, fewer than the result has when the answer ended inside the accepted path. `row(i)` is the
// target's distribution after row i as Verifier::observed() returns it: row 0 is after the last committed token, row 1
// + node after a node.
void observe_verification(const Proposal& proposal, const VerifyResult& result, std::span<const std::int32_t> committed,
                          const std::function<TopK(std::int32_t)>& row, Observation& observation);

}  // namespace slip
