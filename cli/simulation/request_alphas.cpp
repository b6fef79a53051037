// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/request_alphas.h"

#include <algorithm>
#include <cstddef>

namespace slip {
namespace {

// ρ, the correlation of two tested tokens of one request. A request of n tokens has a count of accepted ones with the
// variance n α (1 − α) (1 + (n − 1) ρ). At most 1/2, which is a prior of one token.
double correlation(std::span<const TestedTokens> requests, double alpha) {
  double beyond_chance = 0, pairs = 0;
  for (const TestedTokens& request : requests) {
    const double n = request.tested, difference = request.accepted - n * alpha;
    beyond_chance += difference * difference - n * alpha * (1 - alpha);
    pairs += n * (n - 1) * alpha * (1 - alpha);
  }
  return pairs > 0 ? std::clamp(beyond_chance / pairs, 0.0, 0.5) : 0;
}

}  // namespace

RequestAlphas request_alphas(std::span<const TestedTokens> requests) {
  double accepted = 0, tested = 0;
  for (const TestedTokens& request : requests) {
    accepted += request.accepted;
    tested += request.tested;
  }
  RequestAlphas alphas{tested > 0 ? accepted / tested : 0, {}};
  alphas.each.assign(requests.size(), alphas.all);
  const double rho = correlation(requests, alphas.all);
  if (rho == 0) return alphas;
  const double weight = 1 / rho - 1;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    alphas.each[i] = (requests[i].accepted + weight * alphas.all) / (requests[i].tested + weight);
  }
  return alphas;
}

}  // namespace slip
