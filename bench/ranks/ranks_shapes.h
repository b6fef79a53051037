// SPDX-License-Identifier: Apache-2.0
// What chains and trees of several shapes would win, computed from what a draft proposed at many positions.
#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

namespace slip::bench {

inline constexpr std::size_t kWidest = 8, kDeepest = 8;

// What the draft proposes from one position: at depth d its `width` likeliest tokens after the likeliest ones before.
struct Drafted {
  std::array<std::array<float, kWidest>, kDeepest> q{};  // their probabilities there
  std::size_t n_right = 0;                               // depths whose first choice was right, from the first on
  std::size_t rank = kWidest;                            // of the right token at the depth after these; kWidest: none
  std::size_t n_known = 0;                               // depths for which the answer has a token
};

// Assumed times, in passes of the target of one row.
struct ShapeCosts {
  double row = 0.05;   // of one more row of a pass
  double draft = 0.1;  // of a draft pass
};

// Accepted length and speed of chains and of trees with up to `width` siblings. REQUIRES: 1 ≤ width ≤ kWidest.
nlohmann::json shapes_of(const std::vector<Drafted>& all, std::size_t width, const ShapeCosts& costs);
// The accepted share by the draft's own probability, for each of the first three ranks.
nlohmann::json calibration_of(const std::vector<Drafted>& all, std::size_t width);
// How often the right token has which rank, by depth.
nlohmann::json depths_of(const std::vector<Drafted>& all, std::size_t width);

}  // namespace slip::bench
