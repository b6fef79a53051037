// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include <bit>

#include "kernels/kernel_table.h"
#include "kernels/vector_clones.h"

namespace slip::kernels {

void rms_norm(const float* x, const float* weight, std::int64_t n, float eps, float* y) {
  kernel_table().rms_norm(x, weight, n, eps, y);
}

void rope(float* x, int n_heads, int head_dim, const float* cos, const float* sin) {
  kernel_table().rope(x, n_heads, head_dim, cos, sin);
}

void add(float* x, const float* delta, std::int64_t n) {
  kernel_table().add(x, delta, n);
}

void silu_multiply(float* gate, const float* up, std::int64_t n) {
  kernel_table().silu_multiply(gate, up, n);
}

std::int64_t argmax(std::span<const float> x) {
  return kernel_table().argmax(x.data(), std::ssize(x));
}

float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

SLIP_VECTOR_CLONES void bf16_to_float(const std::uint16_t* x, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(x[i]) << 16);
}

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

void float_to_bf16(const float* x, std::int64_t n, std::uint16_t* out) {
  kernel_table().to_bf16(x, n, out);
}

float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t magnitude = bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
  // Scaling by 2^112 corrects the exponent bias and normalizes subnormal numbers.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

}  // namespace slip::kernels
