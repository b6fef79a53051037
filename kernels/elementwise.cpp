// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include <cmath>
#include <cstring>

#include "kernels/exp.h"

namespace slip::kernels {

SLIP_CLONES void rms_norm(const float* x, const float* weight, std::int64_t n, float eps, float* y) {
  float lanes[16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += x[i + lane] * x[i + lane];
  }
  for (; i < n; ++i) lanes[i % 16] += x[i] * x[i];
  float sum = 0;
  for (float lane : lanes) sum += lane;
  const float scale = 1.0F / std::sqrt(sum / static_cast<float>(n) + eps);
  for (i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

SLIP_CLONES void rope(float* x, int n_heads, int head_dim, const float* cos, const float* sin) {
  const int half = head_dim / 2;
  for (int head = 0; head < n_heads; ++head, x += head_dim) {
    for (int i = 0; i < half; ++i) {
      const float a = x[i], b = x[i + half];
      x[i] = a * cos[i] - b * sin[i];
      x[i + half] = b * cos[i] + a * sin[i];
    }
  }
}

SLIP_CLONES void silu_multiply(float* gate, const float* up, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) gate[i] = gate[i] / (1.0F + fast_exp(-gate[i])) * up[i];
}

SLIP_CLONES void add(float* x, const float* delta, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] += delta[i];
}

std::int64_t argmax(std::span<const float> x) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < std::ssize(x); ++i) {
    if (x[i] > x[best]) best = i;
  }
  return best;
}

float bf16_to_float(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

std::uint16_t float_to_bf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

float f16_to_float(std::uint16_t bits) {
  _Float16 half;
  std::memcpy(&half, &bits, 2);
  return static_cast<float>(half);
}

}  // namespace slip::kernels
