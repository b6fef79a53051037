// SPDX-License-Identifier: Apache-2.0
#include "distill/canary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "distill/student_t.h"

namespace slip {

namespace {

// Up to here every swap of names is tried (4,096 at most); beyond, the t approximation is good and 2^n is not.
constexpr std::size_t kMaxExactRequests = 12;
constexpr double kReportedTail = 0.025;  // people read 95 % intervals

struct Sums {
  double accepted = 0, judged = 0;
  void add(const AcceptanceScore& score, double sign = 1) {
    accepted += sign * score.accepted;
    judged += sign * (score.accepted + score.first_rejections);
  }
  double ratio() const { return judged > 0 ? accepted / judged : 0; }
};

struct PairSums {
  Sums newer, older;
  double gain() const { return newer.ratio() - older.ratio(); }
};

PairSums sum_pairs(std::span<const PairedScore> pairs) {
  PairSums sums;
  for (const PairedScore& pair : pairs) {
    sums.newer.add(pair.candidate);
    sums.older.add(pair.live);
  }
  return sums;
}

// Jackknife standard error of the gain: leave each request out once.
double standard_error(std::span<const PairedScore> pairs, const PairSums& sums) {
  const auto n = static_cast<double>(pairs.size());
  double mean = 0;
  std::vector<double> without;
  for (const PairedScore& pair : pairs) {
    PairSums rest = sums;
    rest.newer.add(pair.candidate, -1);
    rest.older.add(pair.live, -1);
    without.push_back(rest.gain());
    mean += without.back() / n;
  }
  double squares = 0;
  for (const double gain : without) squares += (gain - mean) * (gain - mean);
  return std::sqrt(squares * (n - 1) / n);
}

// P(gain at least as large) when each request's two scores carry the drafts' names by a fair coin: exact under "the
// two drafts are alike".
double swap_test(std::span<const PairedScore> pairs, double gain) {
  constexpr double kRounding = 1e-12;
  const std::size_t n_swaps = std::size_t{1} << pairs.size();
  std::size_t as_large = 0;
  for (std::size_t swaps = 0; swaps < n_swaps; ++swaps) {
    PairSums sums;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const bool swapped = (swaps >> i & 1) != 0;
      sums.newer.add(swapped ? pairs[i].live : pairs[i].candidate);
      sums.older.add(swapped ? pairs[i].candidate : pairs[i].live);
    }
    as_large += sums.gain() >= gain - kRounding ? 1 : 0;
  }
  return static_cast<double>(as_large) / static_cast<double>(n_swaps);
}

// p that the newer draft is better by chance; with sign −1, that it is worse by chance.
double one_sided_p(std::span<const PairedScore> pairs, double gain, double error, double sign) {
  if (pairs.size() < 2) return 1;
  const auto degrees = static_cast<double>(pairs.size() - 1);
  double p = 1;
  if (error > 0) {
    p = student_t_tail(sign * gain / error, degrees);
  } else if (sign * gain > 0) {
    p = 0;  // every request says the same; below, the exact test still asks for enough of them
  }
  if (pairs.size() > kMaxExactRequests) return p;
  if (sign > 0) return std::max(p, swap_test(pairs, gain));
  std::vector<PairedScore> mirrored(pairs.begin(), pairs.end());
  for (PairedScore& pair : mirrored) std::swap(pair.candidate, pair.live);
  return std::max(p, swap_test(mirrored, -gain));
}

struct Figures {
  CanaryVerdict verdict;
  double error = 0;
  double spent = 0;  // significance of this look
};

double mean_length(std::span<const PairedScore> pairs, AcceptanceScore PairedScore::*which) {
  double tokens = 0;
  double steps = 0;
  for (const PairedScore& pair : pairs) {
    tokens += (pair.*which).tokens;
    steps += (pair.*which).steps;
  }
  return steps > 0 ? tokens / steps : 0;
}

Figures measure(const CanaryOptions& options, std::span<const PairedScore> pairs, std::uint64_t look) {
  Figures figures;
  const auto looked = static_cast<double>(std::max<std::uint64_t>(look, 1));
  figures.spent = options.significance / (looked * (looked + 1));
  CanaryVerdict& verdict = figures.verdict;
  verdict.requests = pairs.size();
  const PairSums sums = sum_pairs(pairs);
  verdict.alpha_candidate = sums.newer.ratio();
  verdict.alpha_live = sums.older.ratio();
  verdict.length_candidate = mean_length(pairs, &PairedScore::candidate);
  verdict.length_live = mean_length(pairs, &PairedScore::live);
  verdict.gain = verdict.gain_low = verdict.gain_high = sums.gain();
  if (pairs.size() < 2) return figures;
  figures.error = standard_error(pairs, sums);
  const double reach = student_t_quantile(kReportedTail, static_cast<double>(pairs.size() - 1)) * figures.error;
  verdict.gain_low -= reach;
  verdict.gain_high += reach;
  return figures;
}

std::string describe(const CanaryVerdict& verdict, const char* conclusion) {
  char line[160];
  std::snprintf(line, sizeof(line), "%s: gain %+.3f [%+.3f, %+.3f], p %.4f, %zu requests", conclusion, verdict.gain,
                verdict.gain_low, verdict.gain_high, verdict.p_value, verdict.requests);
  return line;
}

CanaryVerdict conclude(CanaryVerdict verdict, CanaryOutcome outcome, const char* conclusion) {
  verdict.outcome = outcome;
  verdict.reason = describe(verdict, conclusion);
  return verdict;
}

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

CanaryVerdict conclude(CanaryVerdict verdict, CanaryOutcome outcome, const char* conclusion, double log_evidence,
                       double required) {
  constexpr double kMostShown = 9;  // e^9: people need no more digits
  const double odds = std::exp(std::min(log_evidence, kMostShown));
  char line[160];
  std::snprintf(line, sizeof(line), "%s: odds %s%.3g of %.3g, gain %+.3f [%+.3f, %+.3f], %zu requests", conclusion,
                log_evidence > kMostShown ? "over " : "", odds, required, verdict.gain, verdict.gain_low,
                verdict.gain_high, verdict.requests);
  verdict.outcome = outcome;
  verdict.reason = line;
  return verdict;
}

}  // namespace

double required_odds(const CanaryOptions& options, std::size_t exports) {
  constexpr double kRisePerExport = 0.25;
  constexpr double kMostRise = 10;  // beyond, a topic that changes after a long flat time would wait too long
  const double earlier = exports > 0 ? static_cast<double>(exports - 1) : 0;
  return options.odds_to_publish * std::min(1 + kRisePerExport * earlier, kMostRise);
}

CanaryVerdict judge_candidate(const CanaryOptions& options, const PairedTest& test) {
  const double better = test.log_evidence_better();
  const double required = required_odds(options, test.exports());
  const CanaryVerdict verdict = verdict_of(test.gain(), better, test.size());
  const auto conclude_better = [&](CanaryOutcome outcome, const char* conclusion) {
    return conclude(verdict, outcome, conclusion, better, required);
  };
  if (test.own_size() < options.min_requests) return conclude_better(CanaryOutcome::kUndecided, "too few requests");
  const double below_margin = test.log_evidence_below_margin();
  if (below_margin >= std::log(options.odds_to_refuse)) {
    return conclude(verdict_of(test.own_gain(), better, test.own_size()), CanaryOutcome::kRefuse, "below margin",
                    below_margin, options.odds_to_refuse);
  }
  if (better < std::log(required)) return conclude_better(CanaryOutcome::kUndecided, "not enough evidence yet");
  if (test.own_gain().value < 0) return conclude_better(CanaryOutcome::kUndecided, "newest export shows a loss");
  if (verdict.gain <= options.margin) return conclude_better(CanaryOutcome::kUndecided, "better by less than margin");
  return conclude_better(CanaryOutcome::kPublish, "better");
}

CanaryVerdict judge_live(const CanaryOptions& options, const LiveWatch& watch) {
  const double worse = watch.log_evidence_worse();
  const bool is_worse = worse >= std::log(options.odds_to_roll_back);
  return conclude(verdict_of(watch.gain(), worse, watch.size()),
                  is_worse ? CanaryOutcome::kRefuse : CanaryOutcome::kUndecided, is_worse ? "worse" : "watched", worse,
                  options.odds_to_roll_back);
}

CanaryVerdict judge_candidate(const CanaryOptions& options, std::span<const PairedScore> pairs, std::uint64_t look) {
  Figures figures = measure(options, pairs, look);
  CanaryVerdict& verdict = figures.verdict;
  if (pairs.size() < std::max<std::size_t>(options.min_requests, 2)) {
    return conclude(verdict, CanaryOutcome::kUndecided, "too few requests");
  }
  verdict.p_value = one_sided_p(pairs, verdict.gain, figures.error, +1);
  if (verdict.p_value <= figures.spent && verdict.gain > options.margin) {
    return conclude(verdict, CanaryOutcome::kPublish, "better");
  }
  const auto degrees = static_cast<double>(pairs.size() - 1);
  const double best_case = verdict.gain + student_t_quantile(figures.spent, degrees) * figures.error;
  if (best_case <= options.margin) return conclude(verdict, CanaryOutcome::kRefuse, "below margin");
  return conclude(verdict, CanaryOutcome::kUndecided, "not significant yet");
}

CanaryVerdict judge_live(const CanaryOptions& options, std::span<const PairedScore> live_and_previous,
                         std::uint64_t look) {
  Figures figures = measure(options, live_and_previous, look);
  CanaryVerdict& verdict = figures.verdict;
  if (live_and_previous.size() < std::max<std::size_t>(std::min(options.min_requests, options.rollback_requests), 2)) {
    return conclude(verdict, CanaryOutcome::kUndecided, "too few requests");
  }
  verdict.p_value = one_sided_p(live_and_previous, verdict.gain, figures.error, -1);
  if (verdict.p_value <= figures.spent && verdict.gain < 0) {
    return conclude(verdict, CanaryOutcome::kRefuse, "worse than its predecessor");
  }
  if (live_and_previous.size() >= options.rollback_requests) {
    return conclude(verdict, CanaryOutcome::kPublish, "stands");
  }
  return conclude(verdict, CanaryOutcome::kUndecided, "watched");
}

}  // namespace slip
