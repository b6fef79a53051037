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

// `bytes` bytes on a 64-byte border (a cache line and one AVX-512 register), from 2 MiB on on a border of huge pages
// and in them where the machine has any; not zeroed. Null when the machine has no memory.
AlignedMemory aligned_memory(std::size_t bytes);

}  // namespace slip
