// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/finite_tensor.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace slip {
namespace {

// Whether no value has an exponent of all ones, which is `mask`: Inf or NaN. Without an early end, so that the compiler
// vectorises it.
template <class Bits>
bool all_finite(std::span<const std::byte> bytes, Bits mask) {
  Bits broken = 0;
  for (std::size_t i = 0; i < bytes.size() / sizeof(Bits); ++i) {
    Bits bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    broken |= static_cast<Bits>((bits & mask) == mask);
  }
  return broken == 0;
}

}  // namespace

bool is_finite(const StoredTensor& tensor) {
  if (tensor.dtype == Dtype::kFloat32) return all_finite<std::uint32_t>(tensor.bytes, 0x7F800000U);
  return all_finite<std::uint16_t>(tensor.bytes, tensor.dtype == Dtype::kBFloat16 ? 0x7F80U : 0x7C00U);
}

}  // namespace slip
