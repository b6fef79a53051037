// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "distill/draft_scorer.h"

namespace slip {

struct CanaryOptions {
  double margin = 0.005;         // α must rise by more than this
  double significance = 0.05;    // over all looks together
  std::size_t min_requests = 8;  // fewer paired requests never decide
  std::size_t rollback_requests =
      24;  // after publishing, previous and live are scored on the same text for so many requests
};

// The newer and the older draft on the same record: candidate and live, or after publishing live and its predecessor.
struct PairedScore {
  AcceptanceScore candidate, live;
};

enum class CanaryOutcome : std::uint8_t { kPublish, kRefuse, kUndecided };

struct CanaryVerdict {
  CanaryOutcome outcome = CanaryOutcome::kUndecided;
  double alpha_live = 0, alpha_candidate = 0;
  double length_live = 0, length_candidate = 0;
  double gain = 0, gain_low = 0, gain_high = 0;  // paired difference of α with its 95 % interval, requests as the unit
  double p_value = 1;
  std::size_t requests = 0;
  std::string reason;  // one line for people: "gain +.08 [.05, .11], p .003" or "below margin"
};

// Publishing and rolling back, decided on plain numbers (pure). The test is one-sided on the difference of the two
// ratios accepted / (accepted + first rejections), with requests as the unit since tokens are not independent:
// jackknife variance and Student's t, and below 13 requests also the exact test that swaps the drafts' names per
// request; the larger p counts. Valid under repeated looks: `look` counts from 1 and the significance is spent as
// α/(look(look+1)), which sums to α.
//
// kPublish: significant, and better by more than the margin. kRefuse: even the far end of the interval at this look is
// below the margin. kUndecided: look again with more requests.
CanaryVerdict judge_candidate(const CanaryOptions& options, std::span<const PairedScore> pairs, std::uint64_t look);
// kRefuse here means: the live version is significantly worse than its predecessor, roll back. kPublish: it has stood
// the watch of rollback_requests.
CanaryVerdict judge_live(const CanaryOptions& options, std::span<const PairedScore> live_and_previous,
                         std::uint64_t look);

}  // namespace slip
