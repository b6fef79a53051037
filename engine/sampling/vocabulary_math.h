// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/random.h"

namespace slip {

// Loops over a whole vocabulary, written so that the compiler turns them into vector code, compiled for several
// instruction sets and chosen at run time. Additions run in eight fixed lanes and nothing is contracted, so the bits
// are the same on all of them. Pure; any thread.

// out[i] = exp((logits[i] − largest) / temperature), 0 below exp(−708); returns their sum, and whether one is 0.
// REQUIRES: logits ≤ largest.
struct ExpSum {
  double sum = 0;
  bool has_zero = false;
};
ExpSum exp_differences(std::span<const float> logits, double largest, double temperature, double* out);
// Σ exp(logits[i] − largest) in single precision, within 2^−21 of it: enough for log probabilities, a third of the
// time.
double sum_exp_differences(std::span<const float> logits, float largest);
double sum_in_lanes(std::span<const double> values);
// out[i] = open_uniform(address, tokens[i]), bit for bit.
void open_uniforms(const RandomAddress& address, std::span<const std::int32_t> tokens, double* out);
// Whether any 1 − u[i] ≤ p[i] · bound. REQUIRES: equal sizes.
bool any_within(std::span<const double> u, std::span<const double> p, double bound);
// What one look over a row tells: its largest value (−inf for none), whether there is a NaN or +inf, and the largest of
// each block of 32. Blocks are the lanes of a stretch, 16 apart, so that finding their largest needs no step across
// lanes: value i is in block i / 512 · 16 + i % 16. With a NaN in it a block's largest may be any of the others.
inline constexpr std::size_t kScanLanes = 16, kScanStretch = 512;
struct RowScan {
  float largest = 0;
  bool is_broken = false;
};
RowScan scan_row(std::span<const float> values, std::vector<float>& block_maxima);
// The lowest index of a row's largest value. REQUIRES: of scan_row(values), not broken, values not empty.
std::size_t index_of_largest(std::span<const float> values, std::span<const float> block_maxima, float largest);

}  // namespace slip
