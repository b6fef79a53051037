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

struct PairedScore {
  AcceptanceScore candidate, live;
};  // same record, both drafts

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

// Publishing and rolling back, decided on plain numbers (pure). Valid under repeated looks: `look` counts from 1 and
// the significance is spent as α/(look(look+1)).
CanaryVerdict judge_candidate(const CanaryOptions& options, std::span<const PairedScore> pairs, std::uint64_t look);
// kRefuse here means: the live version is worse than its predecessor, roll back.
CanaryVerdict judge_live(const CanaryOptions& options, std::span<const PairedScore> live_and_previous,
                         std::uint64_t look);

}  // namespace slip
