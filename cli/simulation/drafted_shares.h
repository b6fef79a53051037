// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cli/simulation/simulation.h"

namespace slip {

// Fits each topic's drafted_share. A recorded one is the share of the decoding steps that had a proposal. The others
// had none for two reasons: nothing made the planner expect a hit, or it did and chose none, for the load. No ledger
// tells them apart, and the simulated planner chooses none for the load too. So this simulates the recorded arrivals,
// and raises or lowers the shares until as large a share of the simulated steps has a proposal, within .01 or as near
// as six rounds come. Takes up to six times the time of simulate(). `simulation`: as the recorded service, with the
// recorded shares. REQUIRES: each arrival has a topic.
std::vector<SimulatedTopic> fit_drafted_shares(Simulation simulation, const std::vector<Arrival>& arrivals);

}  // namespace slip
