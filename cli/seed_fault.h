// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace slip::cli {

// A check for CLI::Option: the reason why `text` is not a seed, empty for a valid one. A seed is an integer from -2^63,
// as in the API, to 2^64 - 1. CLI11 alone clamps larger values. Pure.
std::string seed_fault(const std::string& text);

}  // namespace slip::cli
