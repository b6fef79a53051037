// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device_code.h"

namespace slip {

// The use of a random number. It is part of the address, so two uses never share bits. Never renumber.
enum class RandomPurpose : std::uint32_t { kDraft = 0, kAccept = 1, kResidual = 2, kGumbel = 3 };

// The address of a random number. The same address gives the same number, regardless of earlier draws, of the batch and
// of the device.
struct RandomAddress {
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;  // index among the request's `n` choices
  // Index of the output token it decides, counted from the first token of the answer
  std::uint32_t output_index = 0;
};

namespace kernels {

struct PhiloxWords {
  std::uint32_t of[4];
};

// Philox4x32-10, a counter-based generator. Multipliers and Weyl increments: Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3", SC 2011, table 2 and section 3.3.
SLIP_DEVICE PhiloxWords philox(PhiloxWords counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter.of[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter.of[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.of[1] ^ key0, static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.of[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

// The 64 bits at an address: key = seed, counter = (output index, token, purpose, choice).
SLIP_DEVICE std::uint64_t random_bits(const RandomAddress& address, RandomPurpose purpose, std::uint32_t token) {
  const PhiloxWords words =
      philox({{address.output_index, token, static_cast<std::uint32_t>(purpose), address.choice}},
             static_cast<std::uint32_t>(address.seed), static_cast<std::uint32_t>(address.seed >> 32));
  return static_cast<std::uint64_t>(words.of[0]) << 32 | words.of[1];
}

// In [0, 1), 53 bits.
SLIP_DEVICE double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}
// In (0, 1): 52 bits plus a half step; with 53 bits the largest value would round to 1.
SLIP_DEVICE double open_unit_interval(std::uint64_t bits) {
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1.0p-52;
}

}  // namespace kernels
}  // namespace slip
