// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace slip::cli {

// For CLI::Option::check: why `text` is no seed, empty when it is one. A seed is a whole number from -2^63, as in the
// API, to 2^64 - 1; CLI11 by itself takes every larger one for the largest. Pure.
std::string seed_fault(const std::string& text);

}  // namespace slip::cli
