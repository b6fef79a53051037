// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "engine/scheduler/slo_targets.h"

namespace slip {

// One request of a load.
struct Arrival {
  double at_s = 0;  // since the start of the load
  std::int32_t max_tokens = 0;
  std::int32_t prompt_tokens = 0;  // 0: the load does not say
  std::int32_t cached_tokens = 0;  // its prompt begins with so many tokens of a text that its topic's requests share
  std::int32_t topic = -1;         // its index; -1: the load does not say
  SloTargets slo = {};             // that it asks for
  double alpha = 0;                // how often the draft is right for it, as SimulatedTopic::alpha; 0: as for the topic
};

// Poisson arrivals at `rate` per second for `duration_s`; deterministic for a seed.
std::vector<Arrival> poisson_arrivals(double rate, double duration_s, std::int32_t max_tokens, std::uint64_t seed);

// How recorded requests are replayed.
struct TraceOptions {
  double scale = 1;       // 2: twice as fast
  double duration_s = 0;  // seconds of the load after which arrivals are left out; 0: none
  std::int32_t max_tokens = 1 << 20, max_prompt_tokens = 1 << 20;  // longer answers and prompts are cut to these
};

// Gives each request one of the targets, drawn by their weights; deterministic for a seed. REQUIRES: as many weights ≥
// 0 as targets, and one > 0.
void draw_targets(std::span<const SloTargets> targets, std::span<const double> weights, std::uint64_t seed,
                  std::vector<Arrival>& arrivals);

// Recorded requests, at any times in any order, as a load that starts at 0 s, ordered by time. Pure.
std::vector<Arrival> replay_arrivals(std::vector<Arrival> recorded, const TraceOptions& options);

// The arrivals of a trace in the format of Azure's LLM inference traces, ordered by time: a head line, then
// TIMESTAMP,ContextTokens,GeneratedTokens, such as 2023-11-16 18:15:46.6805900,374,44. Error{kNotFound}, and
// Error{kInvalidArgument} naming the file and the line that cannot be read.
std::vector<Arrival> trace_arrivals(const std::filesystem::path& trace, const TraceOptions& options);

}  // namespace slip
