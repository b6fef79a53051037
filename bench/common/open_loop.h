// SPDX-License-Identifier: Apache-2.0
// Open-loop load: requests start on schedule, even if earlier ones have not finished. A slow server thus shows as
// latency, not as a slower client.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/common/client.h"
#include "bench/common/prompts.h"
#include "cli/simulation/arrivals.h"
#include "cli/simulation/load_figures.h"

namespace slip::bench {

// The prompts to send, in a cycle from the first.
struct LoadCalls {
  std::vector<Prompt> prompts;
  std::string topic;  // empty: each prompt's own
  double temperature = 0;
};

// Sends prompt `first_prompt` + i at arrival i. Blocks until the last reply; one thread per request.
LoadFigures run_open_loop(const Endpoint& endpoint, const LoadCalls& calls, const std::vector<Arrival>& arrivals,
                          std::size_t first_prompt = 0);

// `clients` send the same requests whatever their times, each its next one after its last answer.
LoadFigures run_closed_loop(const Endpoint& endpoint, const LoadCalls& calls, const std::vector<Arrival>& requests,
                            int clients);

}  // namespace slip::bench
