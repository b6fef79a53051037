// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/raw_logits_checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace slip {

std::uint64_t raw_logits_checksum(std::span<const float> logits, std::uint64_t before) {
  return XXH3_64bits_withSeed(logits.data(), logits.size_bytes(), before);
}

}  // namespace slip
