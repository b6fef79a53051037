// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention.h"
#include "kernels/elementwise.h"

namespace slip::kernels::cuda {

// store_kv() for the pages of a device (DeviceKv).
inline void store_device_kv(const PagedKv& kv, std::int32_t page, int offset, const float* k, const float* v) {
  auto* to = reinterpret_cast<std::uint16_t*>(static_cast<std::byte*>(kv.base) + page * kv.page_stride_bytes);
  for (const float* from : {k, v}) {
    for (int head = 0; head < kv.n_kv_heads; ++head, from += kv.head_dim, to += kv.page_tokens * kv.head_dim) {
      for (int d = 0; d < kv.head_dim; ++d) to[offset * kv.head_dim + d] = float_to_bf16(from[d]);
    }
  }
}

}  // namespace slip::kernels::cuda
