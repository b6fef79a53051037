// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "engine/speculative/proposal.h"

namespace slip {

// Prunes a proposal to its first `max_nodes` nodes. The choice depends only on the nodes' order, never on the drawn
// tokens, since that would bias the rejection rule. Parents precede children, so the rest is a tree again. Does nothing
// to a proposal within the limit. Pure.
void select_nodes(Proposal& proposal, std::int32_t max_nodes);

}  // namespace slip
