// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/adapt/adapt_arms.h"
#include "bench/adapt/adapt_options.h"
#include "bench/common_prompts.h"

namespace slip::bench {

// Reads the prompts of --stream: the files in sequence; with "mix:" one row of each in turn; with "shift:" an equal
// part of each in sequence. Error{kInvalidArgument, kNotFound}.
std::vector<Prompt> read_stream(const AdaptOptions& options);

// {arm: {final_alpha, requests_to_50, requests_to_90, windows, optimizer_steps, training_seconds, publishes,
// rollbacks}}. The levels 50 and 90 are percentages of the way from the base draft to offline-100, or to the arm's own
// end without that arm. A level that was never reached is null.
nlohmann::json recorded_report(const AdaptOptions& options, const std::map<std::string, ArmRun>& runs);
// The median of each number over several seeds' reports; null counts as the largest.
nlohmann::json median_report(const nlohmann::json& seeds);
void print_adapt_table(const nlohmann::json& result);

}  // namespace slip::bench
