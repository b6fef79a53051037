// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/sample/random.h"

namespace slip {

// Loops over a whole vocabulary, written so that the compiler turns them into vector code, compiled for several
// instruction sets and chosen at run time. Additions run in eight fixed lanes and nothing is contracted, so the bits
// are the same on all of them. Pure; any thread.

// out[i] = exp((logits[i] − largest) / temperature), 0 below exp(−708); returns their sum. REQUIRES: logits ≤ largest.
double exp_differences(std::span<const float> logits, double largest, double temperature, double* out);
// Σ exp(logits[i] − largest).
double sum_exp_differences(std::span<const float> logits, double largest);
double sum_in_lanes(std::span<const double> values);
// Neither NaN nor +inf anywhere.
bool all_below_infinity(std::span<const float> logits);
// out[i] = open_uniform(address, tokens[i]), bit for bit.
void open_uniforms(const RandomAddress& address, std::span<const std::int32_t> tokens, double* out);
// Whether any 1 − u[i] ≤ p[i] · bound. REQUIRES: equal sizes.
bool any_within(std::span<const double> u, std::span<const double> p, double bound);
// The largest of some floats, −inf for none.
float largest_of(std::span<const float> values);
// out[b] = the largest of the b-th kMaximaBlock values, for whole blocks only.
inline constexpr std::size_t kMaximaBlock = 32;
void block_maxima(std::span<const float> values, std::span<float> out);

}  // namespace slip
