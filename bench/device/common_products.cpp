// SPDX-License-Identifier: Apache-2.0
#include "bench/device/common_products.h"

#include <cmath>
#include <string_view>

#include "tests/kernels/kernel_cases.h"

namespace slip::bench {

std::vector<ProductShape> product_shapes(const char* model) {
  if (std::string_view(model) == "8B") {
    return {{model, "qkv", 6144, 4096},
            {model, "attention_out", 4096, 4096},
            {model, "gate_up", 28672, 4096},
            {model, "down", 4096, 14336},
            {model, "vocabulary", 128256, 4096}};
  }
  return {{model, "qkv", 2560, 2048},
          {model, "attention_out", 2048, 2048},
          {model, "gate_up", 11264, 2048},
          {model, "down", 2048, 5632},
          {model, "vocabulary", 32000, 2048}};
}

ElementSum element_sum(const RandomMatrix& weight, std::int64_t output, const RandomMatrix& x, std::int64_t row) {
  ElementSum out;
  for (std::int64_t k = 0; k < weight.n_columns; ++k) {
    const double term = double{element_of(weight, output, k)} * double{element_of(x, row, k)};
    out.sum += term;
    out.size += std::abs(term);
  }
  return out;
}

bool is_near(double got, const ElementSum& expected) {
  return std::abs(got - expected.sum) <= kernels::Tolerance::kMatmul * expected.size;  // false for NaN
}

std::vector<std::int64_t> sampled(std::int64_t n, int how_many) {
  std::vector<std::int64_t> out;
  for (int i = 0; i < how_many && i < n; ++i) out.push_back(how_many == 1 ? 0 : (n - 1) * i / (how_many - 1));
  return out;
}

bool is_right(const float* y, const RandomMatrix& weight, const RandomMatrix& x) {
  check(cudaDeviceSynchronize(), "a product");
  for (const std::int64_t row : sampled(x.n_rows, 5)) {
    for (const std::int64_t output : sampled(weight.n_rows, 7)) {
      float got = 0;
      check(cudaMemcpy(&got, y + row * weight.n_rows + output, sizeof got, cudaMemcpyDeviceToHost), "an element");
      if (!is_near(got, element_sum(weight, output, x, row))) return false;
    }
  }
  return true;
}

}  // namespace slip::bench
