// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "engine/speculative/proposal.h"

namespace slip {

// Prunes a proposal to `max_nodes`. Which nodes go depends on their order alone, never on the tokens drawn for them
// (that would bias the rejection rule), and parents precede children, so what is left is a tree again. The identity for
// a chain that kept to its plan. Pure.
void select_nodes(Proposal& proposal, std::int32_t max_nodes);

}  // namespace slip
