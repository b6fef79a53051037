// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/adapt/adapt_arms.h"
#include "bench/adapt/adapt_options.h"
#include "bench/common/prompts.h"

namespace slip::bench {

// Reads the first `requests` prompts of --stream: the files in sequence. With the prefix "mix:" one prompt of each file
// in turn; with "shift:" an equal number of each file, one file after the other. Error{kInvalidArgument | kNotFound}.
std::vector<Prompt> read_stream(const AdaptOptions& options);

// Returns {arm: {final_alpha, requests_to_50, requests_to_90, windows, looks, tokens_per_s, optimizer_steps,
// training_seconds, publishes, rollbacks}}, and `chosen` where the arm chose its settings. requests_to_50 is the number
// of requests until α on the dev records has made 50 % of the rise from the base draft's α to the final α of
// offline-100, or to the arm's own final α without that arm. Null: never reached. tokens_per_s is null, since no target
// runs.
nlohmann::json recorded_report(const AdaptOptions& options, const std::map<std::string, ArmRun>& runs);
// The median of each number over several seeds' reports: the lower one of two, and null counts as the largest. Lists
// and texts are the first seed's.
nlohmann::json median_report(const nlohmann::json& seeds);
// Prints one row per arm of {topic, window, arms}; `arms` as returned above.
void print_adapt_table(const nlohmann::json& result);

}  // namespace slip::bench
