// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bench/adapt/adapt_arms.h"

namespace slip::bench {

// Write each arm's α over the number of requests. Error{kIo}.
void write_curves_csv(const std::filesystem::path& file,
                      const std::map<std::string, ArmRun>& arms);  // arm,requests,alpha
void write_curves_svg(const std::filesystem::path& file, const std::string& title,
                      const std::map<std::string, ArmRun>& arms);

}  // namespace slip::bench
