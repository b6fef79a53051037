// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/random.h"

#include <cmath>

namespace slip {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  const auto words = kernels::philox({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
  return {words.of[0], words.of[1], words.of[2], words.of[3]};
}

double uniform(const RandomAddress& address, RandomPurpose purpose, std::uint32_t token) {
  return kernels::unit_interval(kernels::random_bits(address, purpose, token));
}

double open_uniform(const RandomAddress& address, std::uint32_t token) {
  return kernels::open_unit_interval(kernels::random_bits(address, RandomPurpose::kGumbel, token));
}

double gumbel(const RandomAddress& address, std::uint32_t token) {
  return -std::log(-std::log(open_uniform(address, token)));
}

}  // namespace slip
