// SPDX-License-Identifier: Apache-2.0
#include "common/nearest_name.h"

#include <algorithm>
#include <vector>

namespace slip {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
  constexpr std::size_t kLeastBeginning = 3;  // characters that say what a longer name would be
  constexpr std::size_t kMissingEnd = 2;      // the distance of "tpot" from "tpot_ms", whatever is missing
  std::string_view best;
  // A name that shares no character with the candidate is not near it.
  std::size_t best_distance = std::min(std::max<std::size_t>(2, name.size() / 2) + 1, name.size());
  for (const std::string_view candidate : candidates) {
    std::size_t distance = edit_distance(name, candidate);
    if (name.size() >= kLeastBeginning && candidate.starts_with(name)) distance = std::min(distance, kMissingEnd);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace slip
