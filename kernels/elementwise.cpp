// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include <bit>
#include <cmath>

namespace slip::kernels {

void rms_norm(const float* x, const float* weight, std::int64_t n, float eps, float* y) {
  float lanes[16] = {};
  for (std::int64_t i = 0; i < n; ++i) lanes[i % 16] += x[i] * x[i];
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  const float inverse = 1.0F / std::sqrt(lanes[0] / static_cast<float>(n) + eps);
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * inverse * weight[i];
}

void rope(float* x, int n_heads, int head_dim, const float* cos, const float* sin) {
  const int half = head_dim / 2;
  for (int head = 0; head < n_heads; ++head, x += head_dim) {
    for (int i = 0; i < half; ++i) {
      const float a = x[i], b = x[i + half];
      x[i] = a * cos[i] - b * sin[i];
      x[i + half] = b * cos[i] + a * sin[i];
    }
  }
}

void silu_multiply(float* gate, const float* up, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) gate[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
}

void add(float* x, const float* delta, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] += delta[i];
}

std::int64_t argmax(std::span<const float> x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < x.size(); ++i) {
    if (x[i] > x[best]) best = i;
  }
  return static_cast<std::int64_t>(best);
}

float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t magnitude = bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
  // Scaling by 2^112 moves the exponent's bias, and normalises subnormal numbers on the way.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

}  // namespace slip::kernels
