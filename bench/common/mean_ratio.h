// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/simulation/load_figures.h"

namespace slip::bench {

// Each run is cut into this number of blocks of successive requests. Requests in a queue wait for each other, so single
// requests are not independent.
inline constexpr std::size_t kBlocksPerRun = 6;

// The mean time of an answer in `one` to that in `other`, over the requests that both answered: `ratio`, `low`, `high`,
// `requests` and `blocks`. Both have the same requests, run by run. The 95 % interval takes blocks as independent
// (delete-one-block jackknife, Student's t). It is too narrow where a queue lasts longer than a block. Null where fewer
// than two blocks have a request that both answered. Pure.
nlohmann::json mean_ratio(const std::vector<LoadFigures>& one, const std::vector<LoadFigures>& other);

}  // namespace slip::bench
