// SPDX-License-Identifier: Apache-2.0
#include "engine/sample/random.h"

#include <cmath>

namespace slip {

namespace {

// The multipliers and Weyl increments of Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011, table 2 and section 3.3).
constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

std::uint64_t bits_at(const RandomAddress& address, RandomPurpose purpose, std::uint32_t token) {
  const auto words =
      philox4x32({address.output_index, token, static_cast<std::uint32_t>(purpose), address.choice},
                 {static_cast<std::uint32_t>(address.seed), static_cast<std::uint32_t>(address.seed >> 32)});
  return static_cast<std::uint64_t>(words[0]) << 32 | words[1];
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

double uniform(const RandomAddress& address, RandomPurpose purpose, std::uint32_t token) {
  return static_cast<double>(bits_at(address, purpose, token) >> 11) * 0x1.0p-53;
}

// 52 bits and a half step: with 53, the largest would round to 1.
double open_uniform(const RandomAddress& address, std::uint32_t token) {
  return (static_cast<double>(bits_at(address, RandomPurpose::kGumbel, token) >> 12) + 0.5) * 0x1.0p-52;
}

double gumbel(const RandomAddress& address, std::uint32_t token) {
  return -std::log(-std::log(open_uniform(address, token)));
}

}  // namespace slip
