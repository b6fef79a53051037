// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace slip::kernels {

// Row-wise float32 operations. Each row's result depends on that row alone, with one fixed order of accumulation.

// y = x / sqrt(mean(x²) + eps) * weight.
void rms_norm(const float* x, const float* weight, std::int64_t n, float eps, float* y);

// Rotates one head-major vector [n_heads, head_dim] in place, Hugging Face "half" layout: pairs (i, i + head_dim/2).
// cos, sin: [head_dim / 2] at this row's position.
void rope(float* x, int n_heads, int head_dim, const float* cos, const float* sin);

void add(float* x, const float* delta, std::int64_t n);

// gate = silu(gate) · up.
void silu_multiply(float* gate, const float* up, std::int64_t n);

std::int64_t argmax(std::span<const float> x);  // lowest index among equals

float bf16_to_float(std::uint16_t bits);
void bf16_to_float(const std::uint16_t* x, std::int64_t n, float* out);  // the same of each
std::uint16_t float_to_bf16(float value);                                // round to nearest even, NaN kept
void float_to_bf16(const float* x, std::int64_t n, std::uint16_t* out);  // the same of each
float f16_to_float(std::uint16_t bits);

}  // namespace slip::kernels
