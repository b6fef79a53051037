// SPDX-License-Identifier: Apache-2.0
// Open-loop load: requests start on schedule, even if earlier ones have not finished. A slow server thus shows as
// latency, not as a slower client.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/common_client.h"
#include "bench/common_prompts.h"

namespace slip::bench {

struct Arrival {
  double at_s = 0;  // since the start of the load
  int max_tokens = 0;
};

// Poisson arrivals at `rate` per second for `duration_s`; deterministic for a seed.
std::vector<Arrival> poisson_arrivals(double rate, double duration_s, int max_tokens, std::uint64_t seed);

// Arrivals of Azure's LLM inference trace: TIMESTAMP,ContextTokens,GeneratedTokens. `scale` 2 replays it twice as fast;
// answers have at most `max_tokens`. Error{kNotFound | kInvalidArgument}.
std::vector<Arrival> trace_arrivals(const std::filesystem::path& trace, double scale, double duration_s,
                                    int max_tokens);

// The prompts to send, in a cycle from the first.
struct LoadCalls {
  std::vector<Prompt> prompts;
  std::string topic;  // empty: each prompt's own
  double temperature = 0;
};

// The replies, and the seconds from the start to the end of the last one.
struct LoadRun {
  std::vector<ChatReply> replies;
  double elapsed_s = 0;
};

// Sends prompt `first_prompt` + i at arrival i. Blocks until the last reply; one thread per request.
LoadRun run_open_loop(const Endpoint& endpoint, const LoadCalls& calls, const std::vector<Arrival>& arrivals,
                      std::size_t first_prompt = 0);

// `clients` send prompts 0 to n − 1, each its next one after its last answer.
LoadRun run_closed_loop(const Endpoint& endpoint, const LoadCalls& calls, std::size_t n, int clients, int max_tokens);

// Counts, tokens_per_s, and mean, p50 and p99 of ttft_ms, itl_ms and e2e_ms over all runs. Pure.
nlohmann::json summarize(const std::vector<LoadRun>& runs);

}  // namespace slip::bench
