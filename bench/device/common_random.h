// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device_code.h"

namespace slip::bench {

// The bfloat16 at `index` of stream `seed`, on host and device: either sign, magnitude between 0.0078 and 1. Finalizer
// of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
SLIP_DEVICE std::uint16_t random_half(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t bits = (seed << 48) + index * 0x9E3779B97F4A7C15U;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EBU;
  bits ^= bits >> 31;
  return static_cast<std::uint16_t>((bits & 0x8000U) | (0x3C00U + (bits >> 16) % 0x380U));
}

}  // namespace slip::bench
