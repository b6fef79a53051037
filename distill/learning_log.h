// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "distill/learning_figures.h"

namespace slip {

// A log line about learning between two reports: each topic with activity, and the cost. Empty when nothing happened.
// Pure; any thread.
std::string learning_line(const LearningFigures& before, const LearningFigures& now);

// A topic's counts at the start of its current spell without an optimizer step.
struct StarvedSpell {
  double since_s = 0;          // LearningFigures::running_s at the first request of the spell
  std::uint64_t requests = 0;  // before the spell
  std::uint64_t steps = 0;
  bool open = false, warned = false;
};
using StarvedSpells = std::map<std::string, StarvedSpell>;  // by topic

inline constexpr double kStarvedAfterS = 600;
inline constexpr std::uint64_t kStarvedRequests = 8;  // fewer requests are too little traffic to learn from

// One warning per topic that had requests for `after_s` seconds but no optimizer step, with cause and remedy. A topic
// is warned about once per spell. A topic whose curve is flat or whose learning is off is not starved. Pure except for
// `spells`, which the caller keeps between reports.
std::vector<std::string> starved_warnings(StarvedSpells& spells, const LearningFigures& now,
                                          double after_s = kStarvedAfterS);

}  // namespace slip
