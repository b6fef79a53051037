// SPDX-License-Identifier: Apache-2.0
// Arithmetic with equal bits on host and device: every rounding is explicit, and no library function is used where
// results are compared bit by bit.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/block.cuh"

namespace slip::kernels::cuda {

SLIP_DEVICE float float_of(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}
SLIP_DEVICE std::uint32_t bits_of(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  return __builtin_bit_cast(std::uint32_t, value);
#endif
}
SLIP_DEVICE double double_of(std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(static_cast<long long>(bits));
#else
  return __builtin_bit_cast(double, bits);
#endif
}
SLIP_DEVICE std::uint64_t bits_of(double value) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint64_t>(__double_as_longlong(value));
#else
  return __builtin_bit_cast(std::uint64_t, value);
#endif
}

SLIP_DEVICE float infinity() {
  return float_of(0x7F800000U);
}

// bfloat16 is the upper half of a float32. Rounding is to nearest, ties to even; NaN is kept.
SLIP_DEVICE float widen(std::uint16_t bits) {
  return float_of(static_cast<std::uint32_t>(bits) << 16);
}
SLIP_DEVICE std::uint16_t round_to_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

// a · b + c with one rounding.
SLIP_DEVICE float fused(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

SLIP_DEVICE int count_bits(std::uint64_t word) {
#if defined(__CUDA_ARCH__)
  return __popcll(word);
#else
  return __builtin_popcountll(word);
#endif
}

// e^x with the reduction and polynomial of kernels/lanes.h: error about one unit in the last place; zero below the
// smallest normal number; constant above 88.37; NaN kept.
SLIP_DEVICE float exponential(float x) {
  constexpr float kLowest = -87.33654F, kHighest = 88.376F;
  constexpr float kRoundToInteger = 12582912.0F;
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  float bounded = x < kHighest ? x : kHighest;
  bounded = bounded > kLowest ? bounded : kLowest;
  const float shifted = fused(bounded, 1.44269504F, kRoundToInteger);
  const float n = shifted - kRoundToInteger;
  const float r = fused(n, -kLn2Low, fused(n, -kLn2High, bounded));
  float sum = 1.0F / 5040;
  sum = fused(sum, r, 1.0F / 720);
  sum = fused(sum, r, 1.0F / 120);
  sum = fused(sum, r, 1.0F / 24);
  sum = fused(sum, r, 1.0F / 6);
  sum = fused(sum, r, 0.5F);
  sum = fused(sum, r, 1.0F);
  sum = fused(sum, r, 1.0F);
  const float power = float_of((bits_of(shifted) + 127U) << 23U);
  const float result = x < kLowest ? 0.0F : sum * power;
  return x == x ? result : x;
}

// e^x for x ≤ 0 in double, as in engine/sampling/vocabulary_math.cpp: Taylor polynomial of degree 13 on |r| ≤ ln 2 / 2,
// zero below −708, exp(0) exactly 1.
SLIP_DEVICE double exp_nonpositive(double x) {
  constexpr double kRound = 0x1.8p52;
  constexpr double kLog2E = 0x1.71547652b82fep+0, kLn2High = 0x1.62e42fefa0000p-1, kLn2Low = 0x1.cf79abc9e3b39p-40;
  const double clamped = x > -708.0 ? x : -708.0;
  const double shifted = clamped * kLog2E + kRound;
  const double n = shifted - kRound;
  const double r = (clamped - n * kLn2High) - n * kLn2Low;
  double sum = 1.0 / 6227020800.0;
  sum = sum * r + 1.0 / 479001600;
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 1.0 / 2;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  const std::uint64_t exponent = bits_of(shifted) - bits_of(kRound);
  const double scale = double_of((exponent + 1023U) << 52U);
  return x > -708.0 ? sum * scale : 0.0;
}

SLIP_DEVICE float silu(float x) {
  return x / (1.0F + exponential(-x));
}

}  // namespace slip::kernels::cuda
