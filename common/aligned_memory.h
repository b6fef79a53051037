// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace slip {

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeMemory>;

// `bytes` bytes aligned to 64 (a cache line, an AVX-512 register), not zeroed. From 2 MiB on they are aligned to huge
// pages, and use them if the machine has any. Null when memory is exhausted.
AlignedMemory aligned_memory(std::size_t bytes);

}  // namespace slip
