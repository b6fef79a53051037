// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/lookup/repeated_tokens.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace slip {

std::int32_t count_repeated_tokens(std::span<const std::int32_t> answer) {
  constexpr std::size_t kGram = 8;
  std::unordered_set<std::string_view> seen;
  std::size_t counted_to = 0, n_repeated = 0;  // tokens before counted_to are already counted
  for (std::size_t begin = 0; begin + kGram <= answer.size(); ++begin) {
    const std::string_view gram(reinterpret_cast<const char*>(answer.data() + begin), kGram * sizeof(std::int32_t));
    if (seen.insert(gram).second) continue;
    n_repeated += begin + kGram - std::max(begin, counted_to);
    counted_to = begin + kGram;
  }
  return static_cast<std::int32_t>(n_repeated);
}

}  // namespace slip
