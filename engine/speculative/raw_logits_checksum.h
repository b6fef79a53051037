// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace slip {

// XXH3-64 over the bytes of one row, seeded with the checksum of the rows before it; `before` is 0 for the first row.
// Equal checksums mean, but for hash collisions, that all bits of all rows are equal.
std::uint64_t raw_logits_checksum(std::span<const float> logits, std::uint64_t before);

}  // namespace slip
