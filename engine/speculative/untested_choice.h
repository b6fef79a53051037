// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/speculative/lookup/past_answers.h"

namespace slip {

// The rate with a share `keep` of its evidence.
inline HitRate scaled(const HitRate& rate, double keep) {
  return {keep * rate.right, keep * rate.all};
}

// Removes 1/256 of a guess from the hit rate of a choice. Called at each place where the choice before it was wrong:
// there this choice is tested if it was proposed. So a rate that fell once returns to its prior, and the choice is
// proposed again when it seems to pay. A test that fails adds a whole guess. So at most one place in 256 has such a
// trial. If the choice is always tested, its rate stays the same.
inline void forget_untested(HitRate& rate) {
  constexpr double kForgotten = 1.0 / 256;
  rate = scaled(rate, rate.all > kForgotten ? 1 - kForgotten / rate.all : 0);
}

}  // namespace slip
