// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/draft_confidence.h"

#include <algorithm>
#include <boost/math/distributions/beta.hpp>

namespace slip {
namespace {

constexpr double kExplainedPerAlpha = .7;
constexpr double kLeast = 1e-9;  // its logarithm is finite

}  // namespace

DraftConfidence::DraftConfidence(double alpha) {
  if (alpha >= 1) {
    quantiles_.fill(1);
    return;
  }
  const double kappa = 1 / (kExplainedPerAlpha * alpha) - 1;
  const boost::math::beta_distribution<> density(alpha * kappa, (1 - alpha) * kappa);
  for (std::size_t i = 0; i < quantiles_.size(); ++i) {
    const double u = (static_cast<double>(i) + .5) / static_cast<double>(quantiles_.size());
    quantiles_[i] = std::max(kLeast, boost::math::quantile(density, u));
  }
}

}  // namespace slip
