// SPDX-License-Identifier: Apache-2.0
#include "distill/canary/canary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "common/counted.h"

namespace slip {

namespace {

// Tolerated loss of α on held-out text: two standard errors over 16 answers. With fewer answers, as in a new topic, it
// is proportionally larger: on a few answers of code a sound trainer differed by .12 and lost its 22 steps.
constexpr double kHeldoutTolerance = 0.03, kHeldoutRequests = 16;

CanaryVerdict verdict_of(const Gain& gain, double log_evidence, std::size_t requests) {
  CanaryVerdict verdict;
  verdict.alpha_candidate = gain.alpha_newer;
  verdict.alpha_live = gain.alpha_older;
  verdict.length_candidate = gain.length_newer;
  verdict.length_live = gain.length_older;
  verdict.gain = gain.value;
  verdict.gain_low = gain.low;
  verdict.gain_high = gain.high;
  verdict.p_value = std::min(1.0, std::exp(-log_evidence));
  verdict.requests = requests;
  return verdict;
}

// Whether the newer draft is clearly worse: the 95 % interval is below 0, and the smooth counts do not say otherwise.
bool is_loss(const CanaryVerdict& verdict, const ExpectedGain& smooth) {
  return verdict.gain_high < 0 && smooth.mean < 0;
}

CanaryVerdict conclude(CanaryVerdict verdict, CanaryOutcome outcome, const char* conclusion, double log_evidence,
                       double required) {
  constexpr double kMostShown = 9;  // larger odds than e^9 are not shown
  const double odds = std::exp(std::min(log_evidence, kMostShown));
  char line[160];
  std::snprintf(line, sizeof(line), "%s: odds %s%.3g of %.3g, gain %+.3f [%+.3f, %+.3f], %s", conclusion,
                log_evidence > kMostShown ? "over " : "", odds, required, verdict.gain, verdict.gain_low,
                verdict.gain_high, counted(verdict.requests, "request").c_str());
  verdict.outcome = outcome;
  verdict.reason = line;
  return verdict;
}

}  // namespace

double required_odds(const CanaryOptions& options, std::size_t begun) {
  constexpr double kRise = 2;
  constexpr double kMostRise = 160;  // beyond, a topic that changes after a long flat time would wait too long
  const double earlier = begun > 0 ? static_cast<double>(begun - 1) : 0;
  return options.odds_to_publish * std::min(1 + kRise * earlier, kMostRise);
}

double odds_by_smooth_gain(const ExpectedGain& gain, double margin) {
  constexpr double kLeast = 0.25, kMost = 20;
  // Relative error of a smooth gain as a forecast of the counted one. Between exports of one training the ratio of the
  // two was .65 to 1.5, and from the base draft to a first export -.1 to 1.
  constexpr double kForecastError = 0.5;
  const double deviation = std::hypot(gain.deviation, kForecastError * gain.mean);
  const double above = gain.mean - margin;
  if (deviation <= 0) return above > 0 ? kMost : kLeast;
  const double better = std::erfc(-above / deviation / std::numbers::sqrt2) / 2;
  return better < 1 ? std::clamp(better / (1 - better), kLeast, kMost) : kMost;
}

std::uint64_t steps_between_exports(std::uint64_t least, std::uint64_t steps_done) {
  return std::clamp(steps_done / 10, least, 4 * least);
}

CanaryVerdict evaluate_candidate(const CanaryOptions& options, const PairedTest& test) {
  const double better = test.log_evidence_better();
  const double required =
      required_odds(options, test.begun()) / odds_by_smooth_gain(test.own_smooth_gain(), options.margin);
  const CanaryVerdict verdict = verdict_of(test.gain(), better, test.size());
  const auto conclude_better = [&](CanaryOutcome outcome, const char* conclusion) {
    return conclude(verdict, outcome, conclusion, better, required);
  };
  if (test.own_size() < options.min_requests) return conclude_better(CanaryOutcome::kUndecided, "too few requests");
  const double below_margin = test.log_evidence_below_margin();
  if (below_margin >= std::log(options.odds_to_refuse)) {
    CanaryVerdict refusal = verdict_of(test.own_gain(), better, test.own_size());
    refusal.harmful = is_loss(refusal, test.own_smooth_gain());
    return conclude(refusal, CanaryOutcome::kRefuse, "below margin", below_margin, options.odds_to_refuse);
  }
  if (better < std::log(required)) return conclude_better(CanaryOutcome::kUndecided, "not enough evidence yet");
  if (test.own_gain().value < 0) return conclude_better(CanaryOutcome::kUndecided, "newest export shows a loss");
  if (verdict.gain <= options.margin) return conclude_better(CanaryOutcome::kUndecided, "better by less than margin");
  return conclude_better(CanaryOutcome::kPublish, "better");
}

CanaryVerdict evaluate_live(const CanaryOptions& options, const LiveWatch& watch) {
  const double worse = watch.log_evidence_worse();
  const bool is_worse = worse >= std::log(options.odds_to_roll_back);
  CanaryVerdict verdict = verdict_of(watch.gain(), worse, watch.size());
  verdict.harmful = is_worse && is_loss(verdict, watch.smooth_gain());
  return conclude(verdict, is_worse ? CanaryOutcome::kRefuse : CanaryOutcome::kUndecided,
                  is_worse ? "worse" : "watched", worse, options.odds_to_roll_back);
}

std::optional<CanaryVerdict> heldout_objection(const PairedScore& sums, std::size_t requests,
                                               const CanaryVerdict& verdict) {
  const double gain = sums.candidate.alpha() - sums.live.alpha();
  const double answers = std::clamp(static_cast<double>(requests), 1.0, kHeldoutRequests);
  if (gain >= -kHeldoutTolerance * kHeldoutRequests / answers) return std::nullopt;
  CanaryVerdict objection = verdict;
  objection.outcome = CanaryOutcome::kRefuse;
  char line[200];
  std::snprintf(line, sizeof line, "worse on held-out text: gain %+.3f there, %+.3f on new text", gain, verdict.gain);
  objection.reason = line;
  objection.harmful = true;  // overfitted
  return objection;
}

}  // namespace slip
