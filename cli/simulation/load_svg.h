// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace slip {

// Draws mean and p99 latency of each arm over the load. `loads`: [{"rate_per_s", "arms": {NAME: summarize()}}].
std::string load_svg(const nlohmann::json& loads, const std::string& machine);

}  // namespace slip
