// SPDX-License-Identifier: Apache-2.0
// Random matrices to multiply, and what their products should be. Threads: one. Throws DeviceFailure.
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
// What a layer of a target multiplies, and its vocabulary: Llama 3's of 8 milliard weights, and TinyLlama's.
std::vector<ProductShape> product_shapes(const char* model);
inline constexpr int kLayersOf8b = 32;

// Σ of an element's products in double, and Σ of their sizes: what an error is measured against.
struct ElementSum {
  double sum = 0, size = 0;
};
ElementSum element_sum(const RandomMatrix& weight, std::int64_t output, const RandomMatrix& x, std::int64_t row);
// By the tolerance that the tests use.
bool is_near(double got, const ElementSum& expected);

// Rows and outputs that stand for all when a product is checked.
std::vector<std::int64_t> sampled(std::int64_t n, int how_many);
// Whether the sampled elements of y [x.n_rows, weight.n_rows], in device memory, are what they should be.
bool is_right(const float* y, const RandomMatrix& weight, const RandomMatrix& x);

}  // namespace slip::bench
