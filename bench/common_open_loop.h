// SPDX-License-Identifier: Apache-2.0
// Open-loop load: requests start when they are due, whether or not earlier ones have finished, so that a slow server
// shows as latency instead of as a slower client.
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
  double at_s = 0;  // since the first second of the load
  int max_tokens = 0;
};

// Poisson arrivals at `rate` a second for `duration_s`; the same seed gives the same instants.
std::vector<Arrival> poisson_arrivals(double rate, double duration_s, int max_tokens, std::uint64_t seed);

// Azure's LLM inference trace: TIMESTAMP,ContextTokens,GeneratedTokens. `scale` 2 replays it twice as fast; answers are
// at most `max_tokens` long. Error{kNotFound | kInvalidArgument}.
std::vector<Arrival> trace_arrivals(const std::filesystem::path& trace, double scale, double duration_s,
                                    int max_tokens);

// What is sent, from the first prompt on and round again.
struct LoadCalls {
  std::vector<Prompt> prompts;
  std::string topic;  // empty: each prompt's own
  double temperature = 0;
};

// The replies and the seconds from the start to the last one's end.
struct LoadRun {
  std::vector<ChatReply> replies;
  double elapsed_s = 0;
};

// Sends prompt `first_prompt` + i at arrival i. Blocks until the last reply is there; a thread a request.
LoadRun run_open_loop(const Endpoint& endpoint, const LoadCalls& calls, const std::vector<Arrival>& arrivals,
                      std::size_t first_prompt = 0);

// `clients` send prompts 0 to n - 1, each its next one as soon as it has its last answer.
LoadRun run_closed_loop(const Endpoint& endpoint, const LoadCalls& calls, std::size_t n, int clients, int max_tokens);

// Counts, tokens_per_s, and mean, p50 and p99 of ttft_ms, itl_ms and e2e_ms over all runs. Pure.
nlohmann::json summarize(const std::vector<LoadRun>& runs);

}  // namespace slip::bench
