// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "distill/learning_figures.h"

namespace slip {

// One line for people about what learning did between two reports: each topic in which something happened, and what it
// cost. Empty when nothing happened. Pure; any thread.
std::string learning_line(const LearningFigures& before, const LearningFigures& now);

// What a topic counted when its spell without an optimizer step began.
struct StarvedSpell {
  double since_s = 0;          // LearningFigures::running_s at the first request of the spell
  std::uint64_t requests = 0;  // before the spell
  std::uint64_t steps = 0;
  bool open = false, warned = false;
};
using StarvedSpells = std::map<std::string, StarvedSpell>;  // by topic

inline constexpr double kStarvedAfterS = 600;
inline constexpr std::uint64_t kStarvedRequests = 8;  // a spell with fewer is too little traffic to learn from

// A warning for each topic that had requests for `after_s` seconds and took no optimizer step, with cause and remedy;
// once a spell. A topic whose curve is flat, or whose learning is off, is not starved. Pure but for `spells`, which the
// caller keeps from report to report.
std::vector<std::string> starved_warnings(StarvedSpells& spells, const LearningFigures& now,
                                          double after_s = kStarvedAfterS);

}  // namespace slip
