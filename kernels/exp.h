// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

// One body per instruction class, chosen by the loader: loops under it are written so that the compiler vectorises over
// lanes without reordering any sum.
#define SLIP_CLONES __attribute__((target_clones("avx512f", "arch=haswell", "default")))

namespace slip::kernels {

// exp(x) to about 2 ulp on [−87, 88], clamped outside: 2^n · p(r) with Cody–Waite reduction (Cephes' expf
// coefficients). Unlike libm's it vectorises, and it gives the same bits wherever it is inlined for one instruction
// class.
inline float fast_exp(float x) {
  const float clamped = std::min(std::max(x, -87.0F), 88.0F);
  const float n = std::nearbyint(clamped * 1.44269504F);
  const float r = clamped - n * 0.693359375F + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const std::int32_t bits = (static_cast<std::int32_t>(n) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, 4);
  return p * power;
}

}  // namespace slip::kernels
