// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "distill/canary/draft_scorer.h"
#include "distill/canary/expected_gain.h"

namespace slip {

// The scores of a newer and an older draft on the same record: candidate and live, or live and its predecessor.
struct PairedScore {
  AcceptanceScore candidate, live;
};

// The scores of two drafts on one record, weighted by how much the record tells about them. Where an answer repeats
// itself, a draft gets the repeated tokens all right or all wrong. So n repeated tokens count as √n: then their sum
// varies as that of n independent ones. Without weights, one answer of 128 tokens rolled back a version that was better
// on all others: 115 tokens were repeated, and the base draft took 45 steps, the live one 101. Pure.
PairedScore pair_of(const AcceptanceScore& newer, const AcceptanceScore& older);

// The target steps that the newer draft saves on this text. The tests below bet on it. It is the service's actual cost,
// it requires no estimate of a ratio, and on equal text it equals the gain in accepted tokens.
double steps_saved(const PairedScore& pair);

// The difference of two acceptance rates, for people. `low` and `high` are an ordinary 95 % interval at the present
// size. They are not valid at a time chosen by the data, and they decide on no publication or rollback.
struct Gain {
  double alpha_newer = 0, alpha_older = 0;
  double length_newer = 0, length_older = 0;  // accepted length, tokens per target step
  double value = 0, low = 0, high = 0;        // alpha_newer − alpha_older
};

// The pooled α of both drafts, and the delta method's interval of their difference with requests as the unit. O(1) in
// memory and time. With `keep` < 1 a request's weight falls by that factor with each later request.
class GainEstimate {
 public:
  explicit GainEstimate(double keep = 1) : keep_(keep) {}
  void add(const PairedScore& pair);
  Gain gain() const;

 private:
  static constexpr std::size_t kSums = 4;  // accepted and tested tokens of the newer draft, then of the older one
  double keep_;
  std::array<double, kSums> sums_{};
  std::array<std::array<double, kSums>, kSums> products_{};
  double tokens_ = 0, steps_newer_ = 0, steps_older_ = 0;
};

// An estimate of the gain in α from the smooth counts of a few requests. They vary a third to a half as much between
// requests as the counted steps do. But they also rise when a draft only gets surer of what it already proposes, which
// the deviation does not cover. O(1) in memory and time.
class SmoothGain {
 public:
  void add(const PairedScore& pair);
  // The deviation is infinite while nothing was tested.
  ExpectedGain gain() const;

 private:
  double n_ = 0, saved_ = 0, saved_squared_ = 0, tested_ = 0;
};

// The wealth of bets that x, a number of target steps, is positive: an e-process, kept as its logarithm. Each request
// multiplies the wealth of bet λ by 1 + tanh(λx), and the evidence is the mean over two λ (method of mixtures).
//
// Null hypothesis: E[tanh(λx)] ≤ 0 given the past. It holds if the two drafts are exchangeable within a request, so
// that x is symmetric, or if x is worse than that. Then the wealth is a supermartingale, and by Ville's inequality P(it
// ever reaches E) ≤ 1/E, over all looks together. Source of the construction: Waudby-Smith and Ramdas, "Estimating
// means of bounded random variables by betting", JRSS B 86(1), 2024. They bet 1 + λx, which requires λ ≤ 1 / max|x|.
// That is a tenth of the best bet, since answers of 70 tokens allow x = −50 but typically show ±3. tanh keeps the
// wealth positive for all x. It counts a request's gain as a factor of at most 2 and its loss in full, so that no
// single answer wins the test.
class SignBets {
 public:
  void add(double x);
  double log_evidence() const;

 private:
  static constexpr std::size_t kBets = 2;
  std::array<double, kBets> log_wealth_{};
};

// A sequential test of a candidate against the live draft, valid however often it is read. A value of O(1) size; one
// request takes O(1) time. Pairs on which both drafts take the same number of steps are no evidence. Threads: a plain
// value.
//
// Successors: the betting argument holds for a predictable sequence of candidates, each chosen before the scores that
// it is bet on. So a later export of the same trainer inherits the evidence of the earlier ones if that is positive,
// and else starts anew. This is the CUSUM e-detector (Shin, Ramdas, Rinaldo 2023) restarted at exports: if no export is
// better, the expected number of times that the evidence reaches E is at most begun() / E. Evidence that a candidate is
// not better by the margin concerns the newest export only.
//
// begun() outlives a verdict, since it says how often this topic's exports were no better: a refusal counts as one more
// beginning, and a new live version halves it. At 1 after each verdict, exports that were all alike brought 7 false
// publications in 10,000 requests, instead of 2.
class PairedTest {
 public:
  // `margin`: the gain of α that a candidate must exceed to be worth a swap.
  explicit PairedTest(double margin = 0) : margin_(margin) {}

  // REQUIRES: the export under test was not trained on the record, and the record is no near-copy of one that it was
  // trained on or that was added before.
  void add(const PairedScore& pair);
  // Starts a later export of the same trainer; the following pairs are about it.
  void begin_successor();
  // Drops all evidence: the candidate was refused, or its trainer restarts.
  void begin_anew();
  // Drops all evidence: the live version is another one.
  void begin_against_new_live();

  double log_evidence_better() const { return better_.log_evidence(); }  // against gain ≤ 0; may be inherited
  double log_evidence_below_margin() const { return below_margin_.log_evidence(); }  // against gain ≥ margin

  std::size_t size() const { return size_; }                           // pairs behind log_evidence_better()
  std::size_t own_size() const { return own_size_; }                   // pairs about the newest export
  std::size_t begun() const { return begun_; }                         // times that the evidence began anew, at least 1
  Gain gain() const { return all_.gain(); }                            // over size() pairs
  Gain own_gain() const { return own_.gain(); }                        // over own_size() pairs
  ExpectedGain own_smooth_gain() const { return own_smooth_.gain(); }  // over own_size() pairs

 private:
  double margin_;
  SignBets better_, below_margin_;
  GainEstimate all_, own_;
  SmoothGain own_smooth_;
  std::size_t size_ = 0, own_size_ = 0, begun_ = 1;
};

// A sequential watch of a live version against an older one, as long as it serves. It bets that live is worse: with
// weight 1 from the publication on, and with weight 1/500 starting anew at every later request. O(1) in memory and
// time.
//
// This is a Shiryaev-Roberts e-detector (Shin, Ramdas, Rinaldo, "E-detectors", 2023) with weighted restarts. While live
// is not worse, the expected evidence after n requests is at most 1 + n / 500. So P(false alarm within n requests) ≤
// (1 + n / 500) / E for a threshold of E. A decline that begins later must first make up for the weight of 1/500.
//
// One of its three bets is on a gross loss: exp(2z − 2), where z is the lost steps over their assumed standard
// deviation. With a factor of at most 2 per request, a draft of random weights would serve for 4 requests; this bet
// needs 2. It is valid if z is sub-Gaussian. The assumed variance, 0.5 · tokens + (0.1 · tokens)² + repeated², is over
// twice the variance measured on similar drafts.
class LiveWatch {
 public:
  void add(const PairedScore& live_and_older);
  double log_evidence_worse() const;
  std::size_t size() const { return size_; }
  Gain gain() const { return gain_.gain(); }  // of live over the older one; weights halve every 200 requests
  ExpectedGain smooth_gain() const { return smooth_.gain(); }  // the same by smooth counts, over size() requests

 private:
  static constexpr std::size_t kBets = 3;
  static constexpr std::array<double, kBets> kWeights = {0.1, 0.7, 0.2};  // small loss, large loss, gross loss

  std::array<double, kBets> log_wealth_{};
  GainEstimate gain_{0.99654};  // 2^(−1/200)
  SmoothGain smooth_;
  std::size_t size_ = 0;
};

}  // namespace slip
