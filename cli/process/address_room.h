// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip::cli {

// Address space for the constructors of LibTorch and the first threads. With less, they end the process without a
// message.
inline constexpr std::uint64_t kLeastAddressRoom = std::uint64_t{256} << 20;

// The bytes that this process may still map under its limits of addresses and of data (RLIMIT_AS and RLIMIT_DATA,
// `ulimit -v` and `ulimit -d`); the largest number without a limit. May run before any constructor, since it allocates
// nothing.
std::uint64_t address_room();

}  // namespace slip::cli
