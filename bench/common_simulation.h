// SPDX-License-Identifier: Apache-2.0
// The engine on an event clock: its queue, admission, planner and proposers' interface run as they are. Only the passes
// are replaced, by their measured times, and the draft's luck, by its measured acceptance rate.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/common_open_loop.h"
#include "engine/engine.h"

namespace slip::bench {

// The time of a model's pass, from what `build/bench/decode --layout both --json` printed for it. Median times; rows
// between measured counts are interpolated, rows beyond the most are extended by the prompt's time per row.
class PassCosts {
 public:
  // Error{kInvalidArgument} naming what the measurement lacks: rows of one sequence for at least two counts, the same
  // for sequences, at least two contexts, and a prompt.
  explicit PassCosts(const nlohmann::json& decode);

  // `rows` ≥ 1 of `sequences`, which see `context` cached tokens in all.
  double us(std::int32_t rows, std::int32_t sequences, std::int64_t context) const;

 private:
  double us_of_rows(std::int32_t rows) const;
  std::map<std::int32_t, double> row_us_;  // of one sequence at the shortest measured context
  std::int64_t base_context_ = 0;          // that context
  double sequence_us_ = 0;                 // of each further sequence
  double context_us_ = 0;                  // of each cached token
  double more_row_us_ = 0;                 // of each row beyond the most
};

// Times beside the passes, in µs: of a step, and of a request before the engine sees it and after it has ended.
struct OtherCosts {
  double step_us = 0, request_us = 0;
};

// A kind of request: how many tokens its prompt has, and how often the draft's next token is right.
struct SimulatedTopic {
  std::string name;
  double alpha = 0;  // 0 … 1; 0: it has no draft
  std::int32_t prompt_tokens = 100;
};

struct Simulation {
  PassCosts target, draft;
  OtherCosts other;
  std::vector<SimulatedTopic> topics;  // arrival i is of topic i mod n
  EngineOptions options;
  std::int32_t cache_tokens = 16384;  // of the target's cache
  std::int32_t max_positions = 4096;
  std::uint64_t seed = 1;
};

// Runs the arrivals to the end of the last answer and returns what a client would have seen. The draft is calibrated:
// the probability p of its own token is drawn from the density with mean α of u^((1 − α) / α), u uniform, and the token
// is right with probability p, at any depth. Deterministic for a seed. Sets the process's monotonic_source for the
// call. Threads: one at a time in a process.
LoadRun simulate(const Simulation& simulation, const std::vector<Arrival>& arrivals);

}  // namespace slip::bench
