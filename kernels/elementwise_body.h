// SPDX-License-Identifier: Apache-2.0
// The row-wise operations of kernels/elementwise.h in 16-lane arithmetic. Each instruction class compiles its own copy
// by including this file.
#pragma once

#include "kernels/lanes.h"

namespace slip::kernels {
namespace {

// Lane i sums the squares of x[i], x[i + 16], … in order, so zeros appended to a row leave the sum's bits unchanged. A
// model padded with zeros and with scaled eps and weights (checkpoints/inflate.h) then computes the same function.
void rms_norm_lanes(const float* x, const float* weight, std::int64_t n, float eps, float* y) {
  Lanes squares = broadcast(0);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Lanes value = load(x + i);
    squares = fused(value, value, squares);
  }
  if (i < n) {
    const Lanes value = load_first(x + i, n - i);
    squares = fused(value, value, squares);
  }
  const Lanes inverse = broadcast(1.0F / __builtin_sqrtf(sum_lanes(squares) / static_cast<float>(n) + eps));
  for (i = 0; i + kLanes <= n; i += kLanes) store(y + i, load(x + i) * inverse * load(weight + i));
  if (i < n) store_first(y + i, load_first(x + i, n - i) * inverse * load_first(weight + i, n - i), n - i);
}

void rope_lanes(float* x, int n_heads, int head_dim, const float* cos, const float* sin) {
  const int half = head_dim / 2;
  for (int head = 0; head < n_heads; ++head, x += head_dim) {
    int i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      const Lanes a = load(x + i), b = load(x + half + i), c = load(cos + i), s = load(sin + i);
      store(x + i, a * c - b * s);
      store(x + half + i, b * c + a * s);
    }
    for (; i < half; ++i) {
      const float a = x[i], b = x[i + half];
      x[i] = a * cos[i] - b * sin[i];
      x[i + half] = b * cos[i] + a * sin[i];
    }
  }
}

SLIP_LANES Lanes silu(const Lanes& x) {
  return x / (broadcast(1) + exponential(broadcast(0) - x));
}

void silu_multiply_lanes(float* gate, const float* up, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(gate + i, silu(load(gate + i)) * load(up + i));
  if (i < n) store_first(gate + i, silu(load_first(gate + i, n - i)) * load_first(up + i, n - i), n - i);
}

void add_lanes(float* x, const float* delta, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, load(x + i) + load(delta + i));
  for (; i < n; ++i) x[i] += delta[i];
}

// Finds the greatest value in one pass over x and its first index in a second one. Ignores NaN; returns 0 if all are
// NaN.
std::int64_t argmax_lanes(const float* x, std::int64_t n) {
  Lanes most = broadcast(-__builtin_inff());
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) most = larger(most, load(x + i));
  float best = max_lanes(most);
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  for (i = 0; i < n; ++i) {
    if (x[i] == best) return i;
  }
  return 0;
}

}  // namespace
}  // namespace slip::kernels
