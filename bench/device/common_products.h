// SPDX-License-Identifier: Apache-2.0
// Random matrices to multiply, and their expected products. Threads: one. Throws DeviceFailure.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/device/common_device.h"

namespace slip::bench {

struct ProductShape {
  const char* model;
  const char* name;
  std::int64_t n_out, n_in;
  double weight_bytes() const { return 2.0 * static_cast<double>(n_out * n_in); }
};
// The products of a target's layer and vocabulary: Llama 3 with 8e9 weights, and TinyLlama.
std::vector<ProductShape> product_shapes(const char* model);
inline constexpr int kLayersOf8b = 32;

// The sum of an element's products in double, and the sum of their magnitudes, which scales the tolerance.
struct ElementSum {
  double sum = 0, size = 0;
};
ElementSum element_sum(const RandomMatrix& weight, std::int64_t output, const RandomMatrix& x, std::int64_t row);
// Compares with the tests' tolerance.
bool is_near(double got, const ElementSum& expected);

// The rows and outputs sampled for checking a product.
std::vector<std::int64_t> sampled(std::int64_t n, int how_many);
// Whether the sampled elements of y [x.n_rows, weight.n_rows], in device memory, are correct.
bool is_right(const float* y, const RandomMatrix& weight, const RandomMatrix& x);

}  // namespace slip::bench
