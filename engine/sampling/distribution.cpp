// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/distribution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/error.h"
#include "engine/sampling/vocabulary_math.h"

namespace slip {

double Distribution::probability(std::int32_t id) const {
  const auto found = std::lower_bound(ids.begin(), ids.end(), id);
  if (found == ids.end() || *found != id) return 0;
  return probabilities[static_cast<std::size_t>(found - ids.begin())];
}

void remove_id(std::int32_t id, Distribution& distribution) {
  auto& [ids, probabilities] = distribution;
  const auto at = std::lower_bound(ids.begin(), ids.end(), id) - ids.begin();
  SLIP_CHECK(at < std::ssize(ids) && ids[static_cast<std::size_t>(at)] == id, "the id is in the support");
  ids.erase(ids.begin() + at);
  probabilities.erase(probabilities.begin() + at);
  const double left = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  if (!(left > 0)) ids.clear(), probabilities.clear();
  for (double& probability : probabilities) probability /= left;
}

std::int32_t sample_inverse_cdf(const Distribution& distribution, double u) {
  SLIP_CHECK(!distribution.ids.empty(), "a distribution has at least one token");
  double cumulative = 0;
  std::int32_t last = distribution.ids.front();
  for (std::size_t i = 0; i < distribution.ids.size(); ++i) {
    if (!(distribution.probabilities[i] > 0)) continue;
    last = distribution.ids[i];
    cumulative += distribution.probabilities[i];
    if (u < cumulative) return last;
  }
  return last;  // rounding left the sum slightly under 1, with u above it
}

// argmax(log p + g) with g = −log(−log u) is argmin(−log u / p): one logarithm instead of three. No logarithm is needed
// for most tokens, since 1 − u ≤ −log u already excludes them.
std::int32_t sample_gumbel(const Distribution& distribution, const RandomAddress& address) {
  SLIP_CHECK(!distribution.ids.empty(), "a distribution has at least one token");
  if (distribution.ids.size() == 1) return distribution.ids.front();
  constexpr double kRoundingMargin = 1 + 1e-12;
  std::int32_t winner = distribution.ids.front();
  double shortest = std::numeric_limits<double>::infinity();
  constexpr std::size_t kBlock = 128;
  std::array<double, kBlock> noise;
  for (std::size_t begin = 0; begin < distribution.ids.size(); begin += kBlock) {
    const std::size_t size = std::min(kBlock, distribution.ids.size() - begin);
    const auto p = std::span(distribution.probabilities).subspan(begin, size);
    const auto u = std::span(noise).first(size);
    open_uniforms(address, std::span(distribution.ids).subspan(begin, size), noise.data());
    if (!any_within(u, p, shortest * kRoundingMargin)) continue;
    for (std::size_t i = 0; i < size; ++i) {
      if (!(p[i] > 0) || 1 - u[i] > p[i] * shortest * kRoundingMargin) continue;
      const double arrival = -std::log(u[i]) / p[i];
      if (arrival < shortest) {
        shortest = arrival;
        winner = distribution.ids[begin + i];
      }
    }
  }
  return winner;
}

}  // namespace slip
