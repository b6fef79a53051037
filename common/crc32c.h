// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace slip {

// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), the checksum of the files this program writes. Pure; any
// thread.
std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace slip
