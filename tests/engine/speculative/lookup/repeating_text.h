// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/sampling/random.h"

namespace slip::testing {

// Text of `n` tokens from a small alphabet, so that it repeats itself.
inline std::vector<std::int32_t> repeating_text(std::uint64_t seed, std::size_t n, double alphabet) {
  std::vector<std::int32_t> text;
  for (std::size_t i = 0; i < n; ++i) {
    const double u = uniform({seed, 0, static_cast<std::uint32_t>(i)}, RandomPurpose::kDraft);
    text.push_back(static_cast<std::int32_t>(u * alphabet));
  }
  return text;
}

}  // namespace slip::testing
