// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/simulation/arrivals.h"
#include "cli/simulation/load_figures.h"
#include "cli/simulation/pass_costs.h"
#include "cli/simulation/profile.h"
#include "engine/engine.h"

namespace slip {

// A kind of request: how many tokens its prompt has, and how often the draft's next token is right.
struct SimulatedTopic {
  std::string name;
  double alpha = 0;  // 0 … 1; 0: it has no draft. Of requests that have their own, the mean
  std::int32_t prompt_tokens = 100;
  double share = 1;  // of the requests, relative to the other topics'
  // Share of the decoding steps in which the planner lets the draft propose: elsewhere nothing made it expect a hit.
  // α is that of these steps. Fixed lengths propose in every step.
  double drafted_share = 1;
  std::optional<double> alpha_of_all_steps = {};  // α of fixed lengths; empty: `alpha`
};

struct Simulation {
  PassCosts target;
  std::optional<PassCosts> draft;  // empty: no topic has a draft
  OtherCosts other;
  std::vector<SimulatedTopic> topics;  // in turns by their shares, unless an arrival has its own
  EngineOptions options;
  std::int32_t cache_tokens = 16384;  // of the target's cache
  std::int32_t max_positions = 4096;
  std::uint64_t seed = 1;
};

// Runs the arrivals to the end of the last answer and returns what their clients would have seen. This is the engine on
// an event clock: its queue, admission, planner and proposers' interface run as they are. Only the passes are replaced,
// by their costs, and the draft's tokens, by its acceptance rate. The draft is calibrated: it draws the probability of
// its own token from DraftConfidence, and the token is right with that probability, at any depth. A sibling is right
// with a probability proportional to α. The planner learns one α for all requests of a topic, as in a service.
// Deterministic for a seed. Sets the process's monotonic_source for the call.
// Threads: one at a time in a process. REQUIRES: arrivals' topics are indices of `topics`.
LoadFigures simulate(const Simulation& simulation, const std::vector<Arrival>& arrivals);

}  // namespace slip
