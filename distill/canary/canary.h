// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "distill/canary/draft_scorer.h"
#include "distill/canary/learning_curve.h"
#include "distill/canary/paired_test.h"

namespace slip {

// Evidence is given as odds: how many times more the bets of paired_test.h have won than a fair game would pay.
struct CanaryOptions {
  double margin = 0.005;         // α must rise by more than this
  std::size_t min_requests = 5;  // fewer paired requests never decide; of a successor, its own count
  double odds_to_publish = 20;   // that the candidate is better; see required_odds and prior_odds
  double odds_to_refuse = 20;    // that the candidate's gain is below the margin
  double odds_to_roll_back = 3;  // that the live version is worse than an older one
};

enum class CanaryOutcome : std::uint8_t { kPublish, kRefuse, kUndecided };

struct CanaryVerdict {
  CanaryOutcome outcome = CanaryOutcome::kUndecided;
  double alpha_live = 0, alpha_candidate = 0;
  double length_live = 0, length_candidate = 0;
  double gain = 0, gain_low = 0, gain_high = 0;  // paired difference of α with its 95 % interval, requests as the unit
  double p_value = 1;                            // 1 / odds, at most 1: valid at every look
  std::size_t requests = 0;
  std::string reason;  // one line for people: "better: odds 25 of 20, gain +0.031 [+0.012, +0.050], 17 requests"
};

// Publishing and rolling back, decided on plain numbers (pure). The rule is the least expected regret: an answer never
// depends on the draft, so a bad version costs speed until the watch ends it, and a good one that waits costs as much.
//
// Odds that a publication needs: odds_to_publish for the first export, a quarter of that more for each later one, ten
// times as much at most. Exports in a row that were not better tell that the next is not either, so its prior odds are
// lower. The expected number of false publications, bounded by the sum of 1 / odds, is then 1.5 in 250 exports.
double required_odds(const CanaryOptions& options, std::size_t exports);

// Odds that an export is better than the live version by `margin`, before it was scored on anything: by the rise that
// the learning curve promised when the live version went live. Bounded to [1/4, 5]: a curve is no proof. What the bets
// have to show is required_odds() over these: a topic with a lot to learn is published on half the requests, and one
// with little not by chance. While a curve rises, the bound on false publications is up to five times as wide.
double prior_odds(const LearningCurve::Rise& promised, double margin);

// Optimizer steps from one export to the next: a tenth of those so far, between `least` and four times that. A young
// trainer changes fast, and what serves lags behind it by this much; an old one changes little, and each export is one
// more chance of a false publication.
std::uint64_t steps_between_exports(std::uint64_t least, std::uint64_t steps_done);

// kPublish: the evidence reaches the required odds over the prior odds, at least min_requests pairs are about this
// export itself and show no loss, and the pooled gain exceeds the margin (against drafts that win often by little and
// lose rarely by much). The caller starts a new test against the new live version. kRefuse: evidence that the newest
// export is not better by the margin. kUndecided: look again after any request.
CanaryVerdict evaluate_candidate(const CanaryOptions& options, const PairedTest& test, double prior = 1);

// kRefuse: the live version is worse than the older one, replace it by that. kUndecided: go on watching. There is no
// minimum of requests, for a bad version costs from its first one on. The odds are low for the same reason, and since a
// version that is rolled back although it was equal costs no α. On the simulated traffic of the tests, 40 steps an
// answer: a version worse by .05 is gone after 191 target steps (median) at odds of 3, after 287 at 6; one that is
// better by .03 is rolled back within 100 requests in .4 % of the cases at 3, in none of 500 at 6.
// In the verdict, `candidate` is the live version and `live` the older one.
CanaryVerdict evaluate_live(const CanaryOptions& options, const LiveWatch& watch);

// The second opinion before a publication: both drafts on held-out text, which no trainer ever draws. A refusal when
// the candidate is clearly worse there, else empty. `sums` are over all `requests` that were held out; `verdict` is
// what new text says.
std::optional<CanaryVerdict> heldout_objection(const PairedScore& sums, std::size_t requests,
                                               const CanaryVerdict& verdict);

}  // namespace slip
