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

// The prompts of --stream: one file after the other, or "mix:" one of each in turn, "shift:" an equal part of each
// after the other. Error{kInvalidArgument, kNotFound}.
std::vector<Prompt> read_stream(const AdaptOptions& options);

// {arm: {final_alpha, requests_to_50, requests_to_90, windows, optimizer_steps, training_seconds, publishes,
// rollbacks}}. The levels are shares of the way from the base draft to offline-100, or without that arm to the arm's
// own end. A level that was never reached is null.
nlohmann::json recorded_report(const AdaptOptions& options, const std::map<std::string, ArmRun>& runs);
// Of several seeds' reports: the median of each number; null counts as the largest.
nlohmann::json median_report(const nlohmann::json& seeds);
void print_adapt_table(const nlohmann::json& result);

}  // namespace slip::bench
