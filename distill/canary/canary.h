// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "distill/canary/draft_scorer.h"
#include "distill/canary/paired_test.h"

namespace slip {

// Options of the canary. Evidence is measured in odds: the factor by which the wealth of the bets of paired_test.h has
// grown.
struct CanaryOptions {
  double margin = 0.005;         // α must rise by more than this
  std::size_t min_requests = 3;  // least paired requests for a decision; a successor counts only its own
  double odds_to_publish = 5;    // that the candidate is better; see required_odds and odds_by_smooth_gain
  double odds_to_refuse = 20;    // that the candidate's gain is below the margin
  double odds_to_roll_back = 3;  // that the live version is worse than an older one
};

enum class CanaryOutcome : std::uint8_t { kPublish, kRefuse, kUndecided };

struct CanaryVerdict {
  CanaryOutcome outcome = CanaryOutcome::kUndecided;
  double alpha_live = 0, alpha_candidate = 0;
  double length_live = 0, length_candidate = 0;
  double gain = 0, gain_low = 0, gain_high = 0;  // paired difference of α and its 95 % interval; unit: requests
  double p_value = 1;                            // 1 / odds, at most 1: valid at every look
  std::size_t requests = 0;
  bool harmful = false;  // a refusal or rollback that training must not continue from
  std::string reason;    // one line for people: "better: odds 25 of 20, gain +0.031 [+0.012, +0.050], 17 requests"
};

// The functions below decide on publication and rollback from plain numbers; all are pure. They minimise expected
// regret. An answer never depends on the draft, so a bad version costs speed until the watch ends it, and a good one
// that waits costs as much.
//
// The odds that a publication needs: odds_to_publish at first, twice that more for each time that the evidence began
// anew (PairedTest::begun), at most 160 times as much. Exports in a row that were not better suggest that the next is
// not better either. The expected number of false publications is bounded by the sum of 1 / odds, which is .8 in 250
// beginnings.
double required_odds(const CanaryOptions& options, std::size_t begun);

// The odds that an export is better than the live version by `margin`, by the smooth counts of its own requests. They
// are bounded to [1/4, 20], since these counts are a forecast and no proof. The bets must reach required_odds() divided
// by these odds: an export that is clearly better is published once min_requests show no loss, and one of a trainer
// that has nothing left to learn is not published by chance. While exports get better, the bound on false publications
// is up to twenty times as high.
double odds_by_smooth_gain(const ExpectedGain& gain, double margin);

// Optimizer steps from one export to the next: a tenth of the `steps_done` of this trainer, between `least` and four
// times that. A new trainer changes fast, and the live draft lags behind it by this interval. An old one changes
// little, and each export is one more chance of a false publication.
std::uint64_t steps_between_exports(std::uint64_t least, std::uint64_t steps_done);

// The decision about a candidate. kPublish under three conditions. The evidence reaches the required odds divided by
// odds_by_smooth_gain(). At least min_requests pairs are about this export itself and show no loss. The pooled gain
// exceeds the margin, which excludes drafts that often win by little and rarely lose by much. The caller then starts a
// new test against the new live version. kRefuse: there is evidence that the newest export is not better by the margin.
// kUndecided: evaluate again after any request.
CanaryVerdict evaluate_candidate(const CanaryOptions& options, const PairedTest& test);

// The decision about the live version. kRefuse: it is worse than the older one, roll back. kUndecided: go on watching.
// There is no minimum of requests, since a bad version costs speed from its first request on. The odds are low for the
// same reason, and since rolling back an equal version costs no α. On the simulated traffic of the tests with 40 steps
// per answer, a version worse by .05 is rolled back after 191 target steps (median) at odds of 3, and after 287 at 6.
// One that is better by .03 is rolled back within 100 requests in .4 % of the cases at 3, and in none of 500 at 6. In
// the verdict, `candidate` is the live version and `live` the older one.
CanaryVerdict evaluate_live(const CanaryOptions& options, const LiveWatch& watch);

// The check on held-out text before a publication; trainers never draw that text. Returns a refusal when the candidate
// is clearly worse there, else empty. `sums` are the scores over all `requests` held-out records; `verdict` is the
// verdict on new text.
std::optional<CanaryVerdict> heldout_objection(const PairedScore& sums, std::size_t requests,
                                               const CanaryVerdict& verdict);

}  // namespace slip
