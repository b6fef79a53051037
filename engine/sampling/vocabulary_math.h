// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/random.h"

namespace slip {

// Loops over a whole vocabulary that the compiler vectorises, compiled for several instruction sets and selected at run
// time. Sums use eight fixed lanes, and no multiply-add is fused, so the bits are the same on all of them. Pure; any
// thread.

// out[i] = exp((logits[i] − largest) / temperature), 0 below exp(−708); returns their sum, and whether one is 0.
// REQUIRES: logits ≤ largest.
struct ExpSum {
  double sum = 0;
  bool has_zero = false;
};
ExpSum exp_differences(std::span<const float> logits, double largest, double temperature, double* out);
// Σ exp(logits[i] − largest) in single precision, with an error within 2^−21: enough for log probabilities, in a third
// of the time.
double sum_exp_differences(std::span<const float> logits, float largest);
double sum_in_lanes(std::span<const double> values);
// out[i] = open_uniform(address, tokens[i]), bit for bit.
void open_uniforms(const RandomAddress& address, std::span<const std::int32_t> tokens, double* out);
// Whether any 1 − u[i] ≤ p[i] · bound. REQUIRES: equal sizes.
bool any_within(std::span<const double> u, std::span<const double> p, double bound);
// The result of one pass over a row: its maximum (−inf for an empty row), whether it has a NaN or +inf, and the maximum
// of each block of 32 values. A block is one of the 16 lanes of a stretch of 512 values: value i is in block i / 512 ·
// 16 + i % 16. So its maximum needs no operation across lanes. If a block has a NaN, its maximum may be any of its
// other values.
inline constexpr std::size_t kScanLanes = 16, kScanStretch = 512;
struct RowScan {
  float largest = 0;
  bool is_broken = false;
};
RowScan scan_row(std::span<const float> values, std::vector<float>& block_maxima);
// The lowest index of a row's largest value. REQUIRES: arguments from scan_row(values), not broken, values not empty.
std::size_t index_of_largest(std::span<const float> values, std::span<const float> block_maxima, float largest);

}  // namespace slip
