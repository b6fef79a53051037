// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/simulation/arrivals.h"
#include "cli/simulation/simulation.h"

namespace slip::cli {

// With a fixed length a larger share of the steps proposes: all but those of the answers' last tokens.
constexpr double kFixedDraftedShare = .8;

// A service's requests: their topics with their α, and how long their prompts and answers were.
struct RecordedTraffic {
  std::vector<SimulatedTopic> topics;
  std::vector<Arrival> requests;  // by the time they ended, oldest first
};

// Reads the newest ten thousand answered requests of a ledger. A topic whose draft stayed the same version in them has
// their α, and each of its requests its own (request_alphas). Of others, whose draft learned, it is the α of the last
// twenty. Cancelled and failed requests have no targets, as in the view `slo`. Error as LedgerReader, and
// Error{kInvalidArgument} if nothing was answered.
RecordedTraffic recorded_traffic(const std::string& file);

}  // namespace slip::cli
