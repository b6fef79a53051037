// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace slip::cli {

// Checks for CLI::Option: the reason why `text` is no valid value, empty for a valid one. Pure.

// A count: an integer from 1 to 2^31 - 1. CLI11's own check names the range of a double.
std::string count_fault(const std::string& text);

// Adds to a range: NaN, which lies in none, passes CLI11's check.
std::string nan_fault(const std::string& text);

// A seed: an integer from -2^63, as in the API, to 2^64 - 1. CLI11 alone clamps larger values.
std::string seed_fault(const std::string& text);

}  // namespace slip::cli
