// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace slip {

// What a random number is for; part of its address, so that no two uses ever share bits. Never renumber.
enum class RandomPurpose : std::uint32_t { kDraft = 0, kAccept = 1, kResidual = 2, kGumbel = 3 };

// The address of a random number: the same address gives the same number, whatever was drawn before, in whichever
// batch.
struct RandomAddress {
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;        // index among the request's `n` choices
  std::uint32_t output_index = 0;  // index of the output token it decides, counted from the answer's first
};

// Philox4x32-10 (Salmon et al., 2011): a counter-based generator; key = seed, counter = (output_index, token, purpose,
// choice).
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

double uniform(const RandomAddress& address, RandomPurpose purpose, std::uint32_t token = 0);  // in [0, 1), 53 bits
double open_uniform(const RandomAddress& address, std::uint32_t token);  // in (0, 1), 52 bits; the u behind gumbel()
double gumbel(const RandomAddress& address, std::uint32_t token);        // −log(−log u), finite

}  // namespace slip
