// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "distill/canary/paired_test.h"
#include "engine/sampling/random.h"

namespace slip {

// Requests as a small draft sees them, scored by two drafts on the same text. Greedy chains of k = 3; answers of about
// 70 tokens (log-normal), about 40 target steps; α of the older draft .45 with a standard deviation of .12 between
// requests. The drafts differ on a share `discordant` of the tokens. The smooth counts see the same gain with
// noise of their own, and without that of the tokens.
struct PairedTraffic {
  std::uint64_t seed = 1;
  double discordant = 0.1;
  double spread = 0.02;      // standard deviation of the gain between requests, and of the smooth counts' own noise
  double smooth_offset = 0;  // gain that the smooth counts see and that is not there

  // Request `index` with the newer draft better by `gain` of α on average. The older draft's score does not depend on
  // the gain.
  PairedScore request(std::uint32_t index, double gain) const {
    const Draws draws{seed, index};
    const auto tokens = static_cast<std::size_t>(std::clamp(58 * std::exp(0.6 * draws.normal(0)), 4.0, 400.0));
    const double alpha = std::clamp(0.45 + 0.12 * draws.normal(1), 0.08, 0.92);
    const double here = gain + spread * draws.normal(2);
    const double differ = std::max(discordant, std::abs(here));
    const double gained = std::min((differ + here) / 2 / (1 - alpha), 1.0);  // P(newer accepts | older refuses)
    const double lost = std::min((differ - here) / 2 / alpha, 1.0);          // P(newer refuses | older accepts)
    std::vector<double> newer(tokens);
    std::vector<double> older(tokens);
    for (std::size_t i = 0; i < tokens; ++i) {
      const auto at = static_cast<std::uint32_t>(i);
      const bool accepts = draws.at(3, at) < alpha;
      older[i] = accepts ? 1 : 0;
      newer[i] = draws.at(4, at) < (accepts ? 1 - lost : gained) ? 1 : 0;
    }
    PairedScore pair{walk_chain(newer, kDraftLength), walk_chain(older, kDraftLength)};
    const double smooth = std::clamp(alpha + here + smooth_offset + spread * draws.normal(5), 0.0, 1.0);
    pair.candidate.smooth_steps = walk_chain(std::vector<double>(tokens, smooth), kDraftLength).steps;
    pair.live.smooth_steps = walk_chain(std::vector<double>(tokens, alpha), kDraftLength).steps;
    return pair;
  }

 private:
  static constexpr int kDraftLength = 3;

  struct Draws {
    std::uint64_t seed;
    std::uint32_t request;
    double at(std::uint32_t what, std::uint32_t token) const {
      return uniform(RandomAddress{seed, what, request}, RandomPurpose::kDraft, token);
    }
    double normal(std::uint32_t what) const {  // Box and Muller
      return std::sqrt(-2 * std::log(1 - at(what, 1000))) * std::cos(2 * std::numbers::pi * at(what, 1001));
    }
  };
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace slip
