// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip::cli {

// Lets this process have `wanted` files and connections open at a time, or as many as it may give itself; returns how
// many it now may. Never lowers what it has. A shell's default of 1,024 is less than the connections we take, and
// without descriptors the ledger could not go on either.
std::uint64_t allow_open_files(std::uint64_t wanted);

}  // namespace slip::cli
