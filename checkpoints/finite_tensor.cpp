// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/finite_tensor.h"

#include <cstdint>
#include <cstring>

namespace slip {

bool is_finite(const StoredTensor& tensor) {
  // In each of the three formats an exponent of all ones is Inf or NaN.
  const std::uint32_t mask = tensor.dtype == Dtype::kFloat32    ? 0x7f800000u
                             : tensor.dtype == Dtype::kBFloat16 ? 0x7f80u
                                                                : 0x7c00u;
  const std::size_t width = dtype_bytes(tensor.dtype);
  for (std::size_t at = 0; at < tensor.bytes.size(); at += width) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, tensor.bytes.data() + at, width);
    if ((bits & mask) == mask) return false;
  }
  return true;
}

}  // namespace slip
