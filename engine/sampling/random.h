// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "kernels/addressed_random.h"

namespace slip {

// Philox4x32-10 (Salmon et al., 2011): a counter-based generator; key = seed, counter = (output_index, token, purpose,
// choice).
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

double uniform(const RandomAddress& address, RandomPurpose purpose, std::uint32_t token = 0);  // in [0, 1), 53 bits
double open_uniform(const RandomAddress& address, std::uint32_t token);  // in (0, 1), 52 bits; the u behind gumbel()
double gumbel(const RandomAddress& address, std::uint32_t token);        // −log(−log u), finite

}  // namespace slip
