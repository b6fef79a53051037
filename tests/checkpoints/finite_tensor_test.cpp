// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/finite_tensor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

namespace slip {
namespace {

// Whether a tensor of ones is finite with `bits` at one place.
template <class Bits>
bool finite_with(Dtype dtype, Bits one, Bits bits, std::size_t n, std::size_t at) {
  std::vector<Bits> values(n, one);
  values[at] = bits;
  return is_finite({dtype, {}, std::as_bytes(std::span(values))});
}

template <class Bits>
void expect_found(Dtype dtype, Bits one, Bits largest, Bits infinity) {
  const auto sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto nan = static_cast<Bits>(infinity + 1);
  for (const std::size_t n : {1, 7, 16, 67}) {  // whole vectors, and what is left of one
    for (std::size_t at = 0; at < n; ++at) {
      for (const Bits of_sign : {Bits{0}, sign}) {
        EXPECT_TRUE(finite_with<Bits>(dtype, one, of_sign | largest, n, at));
        EXPECT_FALSE(finite_with<Bits>(dtype, one, of_sign | infinity, n, at));
        EXPECT_FALSE(finite_with<Bits>(dtype, one, of_sign | nan, n, at));
      }
    }
  }
}

TEST(FiniteTensor, OneInfinityOrNanIsFoundWhereverItIs) {
  expect_found<std::uint32_t>(Dtype::kFloat32, 0x3F800000U, 0x7F7FFFFFU, 0x7F800000U);
  expect_found<std::uint16_t>(Dtype::kBFloat16, 0x3F80U, 0x7F7FU, 0x7F80U);
  expect_found<std::uint16_t>(Dtype::kFloat16, 0x3C00U, 0x7BFFU, 0x7C00U);
}

}  // namespace
}  // namespace slip
