// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

namespace slip {

// How sure a simulated draft is of its tokens: the probability p that one is right, of mean α over all tokens. A draft
// that knows its topic better also knows better which of its tokens are right: p explains .7 α of the variance of being
// right, as `bench/ranks` measured (.03 at α = .07, .49 at α = .70). So p has the density
// Beta(α κ, (1 − α) κ), κ = 1 / (.7 α) − 1. Immutable; any thread.
class DraftConfidence {
 public:
  explicit DraftConfidence(double alpha);  // REQUIRES: 0 < alpha <= 1

  // The probability at the quantile u in [0, 1), to the nearest of a thousand.
  double at(double u) const { return quantiles_[static_cast<std::size_t>(u * static_cast<double>(quantiles_.size()))]; }

 private:
  std::array<double, 1000> quantiles_;
};

}  // namespace slip
