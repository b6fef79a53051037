// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace slip {

// One plot of figures over the load. `line` and `dashes` are JSON pointers into an arm's figures, as "/ttft_ms/p50".
struct LoadPanel {
  std::string title;  // with the unit; empty: none
  std::string line, dashes;
  bool logarithmic = true;  // an overloaded arm's latency is a hundred times the others'
};

struct LoadDrawing {
  std::string name, title, subtitle, description;
  std::vector<LoadPanel> panels;  // from top to bottom
};

// Draws each arm over the load, in every panel. `loads`: [{"rate_per_s", "arms": {NAME: summarize()}}]. Figures that
// are no numbers are left out.
std::string load_svg(const nlohmann::json& loads, const LoadDrawing& drawing);

}  // namespace slip
